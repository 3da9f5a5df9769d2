#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "equipoise/base/ids.h"
#include "equipoise/model/mesh.h"

namespace equipoise {

enum class ShardingRule : int64_t { sequence_zigzag = 0, document_zigzag, contiguous, hybrid };

inline constexpr std::array sharding_rules = {ShardingRule::sequence_zigzag, ShardingRule::document_zigzag,
                                              ShardingRule::contiguous, ShardingRule::hybrid};

/// A range of tokens of one segment and the context-parallel rank that owns it (computes its linear layers).
struct ShardPiece {
  int64_t segment = 0;        ///< index into the sequence
  int64_t begin_tokens = 0;   ///< from the start of the segment
  int64_t length_tokens = 0;  ///< > 0
  int64_t cp_rank = 0;
  auto operator<=>(const ShardPiece&) const = default;
};

/// Who owns which tokens of one sequence. Invariant: the pieces partition the sequence and are sorted by (segment,
/// begin); ranks own equal tokens within max(1, align); neighbouring pieces of one segment and rank are merged.
struct Sharding {
  ShardingRule rule = ShardingRule::contiguous;
  std::vector<ShardPiece> pieces;
  bool operator==(const Sharding&) const = default;
};

std::string_view name(ShardingRule rule);
/// Throws InputError naming the choices.
ShardingRule parse_sharding(std::string_view text);

/// A run of rows in a member's tensors.
struct LocalPiece {
  int64_t segment = 0;
  int64_t begin_tokens = 0;  ///< from the start of the segment: also the position of its first row
  int64_t length_tokens = 0;
  int64_t first_row = 0;  ///< in the member's tensors
  bool operator==(const LocalPiece&) const = default;
};

/// What the rows of all ranks of a sequence, padding included, come in multiples of; 1 where each rank is padded by
/// itself. sequence_zigzag under sequence parallelism (tp > 1 and align_tokens > 1): lcm(2 cp, cp align_tokens), which
/// are 2 cp equal chunks whose ranks' rows tp ranks can share.
int64_t sequence_multiple(ShardingRule rule, const Mesh& mesh, int64_t align_tokens);

/// Rows of each cp rank, padding included: what it owns, rounded up to a multiple of align_tokens; where
/// sequence_multiple() is above 1, equal rows that sum to the next multiple of it. Requires ranks below cp.
std::vector<int64_t> rank_rows(const Sharding& sharding, const Mesh& mesh, int64_t align_tokens);

/// The rows of one member in the order in which they lie in its tensors: its pieces by (segment, begin), then padding.
struct LocalRows {
  std::vector<LocalPiece> pieces;
  int64_t owned_rows = 0;
  int64_t padding_rows = 0;  ///< up to rank_rows(): in no segment, no tile, no loss; outputs and gradients exactly 0
};

/// The rows of one of the mesh's cp ranks. Requires ranks below cp.
LocalRows local_rows(const Sharding& sharding, const Mesh& mesh, int64_t cp_rank, int64_t align_tokens);

}  // namespace equipoise
