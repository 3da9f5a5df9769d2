#pragma once

#include <compare>
#include <cstdint>

namespace equipoise {

/// An id that cannot be mixed up with another kind of id. Ids are dense from 0; -1 is "none".
template <class Tag>
struct Id {
  int64_t value = -1;
  auto operator<=>(const Id&) const = default;
};

/// A document: its index in the input, whatever the order of arrival.
using DocId = Id<struct DocTag>;
/// A packed sequence: its index among the M sequences of one optimizer step.
using SeqId = Id<struct SeqTag>;
/// A member of a pool: replica_in_pool * cp + cp_rank.
using MemberId = Id<struct MemberTag>;

}  // namespace equipoise
