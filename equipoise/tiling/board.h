#pragma once

#include <array>
#include <span>
#include <vector>

#include "equipoise/tiling/pieces.h"

namespace equipoise {

/// Rows of one KV head (with its query heads) of a text, whoever owns them, and who computes them.
struct Slice {
  Range rows;
  MemberId member;      ///< none while nobody has taken them
  int64_t work_ns = 0;  ///< on its member, which pays no entry for rows of its own: its piece has one anyway
};

/// Rows of a text and who owns them.
struct OwnedRows {
  Range rows;
  MemberId owner;
};

/// A segment whose attention may be computed elsewhere, and its rows by owner; no two neighbours have the same one.
struct Text {
  int64_t replica_in_pool = 0;
  int64_t segment = 0;
  int64_t length_tokens = 0;
  std::vector<OwnedRows> pieces;
};

/// What one member does and moves, all of it following from the slices.
struct MemberTally {
  int64_t work_ns = 0;     ///< predicted, forward and backward, at nominal speed
  int64_t traffic_ps = 0;  ///< sent and received, forward and backward, each byte on its own link
  int64_t key_bytes = 0;   ///< of keys and values received in the forward
};

/// What a member would gain with some rows, beside their work.
struct Gain {
  int64_t traffic_ps = 0;  ///< of all members together
  int64_t key_bytes = 0;
};

/// The attention of a pool as columns, one for each KV head of each text, cut into slices; keeps every member's tally
/// true while slices change hands.
///
/// The keys that a member needs of a column are taken as one range, from the first to the last that its slices see:
/// exact for causal and full masks, never too small for a sliding window.
class Board {
 public:
  /// Texts are the segments of several pieces, those of at least a quarter of a rank's tokens, and those with open
  /// columns; all others stay with their owners. Rows of `open` columns, which are sorted by piece, belong to nobody
  /// yet.
  Board(const PooledTiling& pool, std::span<const HomePiece> pieces, std::span<const Column> open);

  const PooledTiling& pool() const { return *pool_; }
  std::span<const Text> texts() const { return texts_; }
  int64_t columns() const { return static_cast<int64_t>(slices_.size()); }
  const Text& text_of(int64_t column) const { return texts_[column / pool_->heads.kv]; }
  int64_t kv_head_of(int64_t column) const { return column % pool_->heads.kv; }
  std::span<const OwnedRows> pieces_of(int64_t column) const { return text_of(column).pieces; }
  /// The piece of a column's text that holds a row.
  const OwnedRows& piece_at(int64_t column, int64_t row) const;

  /// Of one column, by rows; no two neighbours have the same member.
  std::span<const Slice> slices(int64_t column) const { return slices_[column]; }
  /// The index of the slice of a column that holds a row.
  int64_t slice_at(int64_t column, int64_t row) const;
  const MemberTally& tally(MemberId member) const { return tallies_[member.value]; }
  int64_t members() const { return static_cast<int64_t>(tallies_.size()); }
  /// Columns in which a member has a slice, in no order that means anything.
  std::span<const int64_t> columns_of(MemberId member) const { return columns_of_[member.value]; }
  /// Members with a slice of a column, likewise.
  struct Need {
    MemberId member;
    Range keys;
  };
  std::span<const Need> needs(int64_t column) const { return needs_[column]; }

  /// What a member would gain by taking some rows.
  Gain gain(int64_t column, Range rows, MemberId member) const;

  /// Work of some rows of a column on a member.
  int64_t work(int64_t column, Range rows, MemberId member) const;

  /// Gives rows, whoever has them, to a member. Slices may be split and joined.
  void give(int64_t column, Range rows, MemberId to);

 private:
  void add_texts(std::span<const HomePiece> pieces, std::span<const Column> open);
  void fill_column(int64_t column, std::span<const HomePiece> pieces, std::span<const Column> open);
  void count_keys(const OwnedRows& piece, MemberId member, int64_t rows);
  void append_slice(int64_t column, Range rows, MemberId member);
  Range needed_keys(int64_t column, MemberId member) const;
  void set_need(int64_t column, MemberId member, Range keys);
  void add_queries(int64_t column, Range rows, MemberId member, int64_t sign);
  bool are_near(MemberId a, MemberId b) const;
  int64_t query_ps(MemberId a, MemberId b) const { return query_row_ps_[are_near(a, b) ? 0 : 1]; }
  int64_t key_ps(MemberId a, MemberId b) const { return key_row_ps_[are_near(a, b) ? 0 : 1]; }
  Range keys_of(int64_t column, MemberId member) const;

  const PooledTiling* pool_;
  std::array<int64_t, 2> query_row_ps_;  ///< of a row of one KV head, within a node and between nodes
  std::array<int64_t, 2> key_row_ps_;
  std::vector<Text> texts_;
  std::vector<int64_t> first_home_;               ///< by text: its first home piece
  std::vector<std::vector<Slice>> slices_;        ///< by column
  std::vector<std::vector<Need>> needs_;          ///< by column
  std::vector<std::vector<int64_t>> columns_of_;  ///< by member
  std::vector<MemberTally> tallies_;              ///< by member
  std::vector<MemberId> givers_;                  ///< scratch of give()
};

}  // namespace equipoise
