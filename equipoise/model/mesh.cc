#include "equipoise/model/mesh.h"

namespace equipoise {
namespace {

int64_t axis_size(const Mesh& mesh, Axis axis) {
  switch (axis) {
    case Axis::pp: return mesh.pp;
    case Axis::dp: return mesh.dp;
    case Axis::cp: return mesh.cp;
    case Axis::tp: return mesh.tp;
  }
  return 1;
}

int64_t axis_index(const MeshPosition& position, Axis axis) {
  switch (axis) {
    case Axis::pp: return position.stage;
    case Axis::dp: return position.replica;
    case Axis::cp: return position.cp_rank;
    case Axis::tp: return position.tp_rank;
  }
  return 0;
}

}  // namespace

int64_t global_rank(const Mesh& mesh, const MeshPosition& position) {
  int64_t rank = 0;
  for (const Axis axis : mesh.order) rank = rank * axis_size(mesh, axis) + axis_index(position, axis);
  return rank;
}

bool same_node(const Mesh& mesh, int64_t replica_a, int64_t cp_rank_a, int64_t replica_b, int64_t cp_rank_b) {
  const int64_t a = global_rank(mesh, {.replica = replica_a, .cp_rank = cp_rank_a});
  const int64_t b = global_rank(mesh, {.replica = replica_b, .cp_rank = cp_rank_b});
  return a / mesh.ranks_per_node == b / mesh.ranks_per_node;
}

std::string describe(const Mesh& mesh) {
  return "dp=" + std::to_string(mesh.dp) + ",pp=" + std::to_string(mesh.pp) + ",cp=" + std::to_string(mesh.cp) +
         ",tp=" + std::to_string(mesh.tp);
}

}  // namespace equipoise
