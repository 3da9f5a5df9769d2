#pragma once

#include <array>
#include <string>

#include "equipoise/base/ids.h"

namespace equipoise {

enum class Axis : int64_t { pp = 0, dp = 1, cp = 2, tp = 3 };

/// The training mesh. Invariant: all sizes >= 1; `order` names each axis once.
struct Mesh {
  int64_t dp = 1;                                                        ///< data-parallel replicas
  int64_t pp = 1;                                                        ///< pipeline stages
  int64_t cp = 1;                                                        ///< context-parallel ranks of one replica
  int64_t tp = 1;                                                        ///< tensor-parallel ranks
  int64_t ranks_per_node = 8;                                            ///< ranks that share the fast links
  std::array<Axis, 4> order = {Axis::pp, Axis::dp, Axis::cp, Axis::tp};  ///< outermost axis first
  bool operator==(const Mesh&) const = default;

  constexpr int64_t world() const { return dp * pp * cp * tp; }
};

/// Where a rank stands in the mesh.
struct MeshPosition {
  int64_t replica = 0;
  int64_t stage = 0;
  int64_t cp_rank = 0;
  int64_t tp_rank = 0;
};

/// The global rank at a position, by the mesh's axis order.
int64_t global_rank(const Mesh& mesh, const MeshPosition& position);

/// Whether two (replica, cp_rank) of the same stage and TP rank stand in one node.
bool same_node(const Mesh& mesh, int64_t replica_a, int64_t cp_rank_a, int64_t replica_b, int64_t cp_rank_b);

/// The member that a (replica in pool, cp_rank) is. Everything that computes takes this pair, never a global rank.
constexpr MemberId member_id(const Mesh& mesh, int64_t replica_in_pool, int64_t cp_rank) {
  return MemberId{replica_in_pool * mesh.cp + cp_rank};
}

/// "dp=8,pp=1,cp=2,tp=1".
std::string describe(const Mesh& mesh);

}  // namespace equipoise
