#pragma once

#include <span>

#include "equipoise/model/rank_program.h"

namespace equipoise {

/// Throws InputError unless the programs are those of all members of one pool, by member: every block sent is received
/// with the same shape in the same order, and the flags say on all members what moves. The message names round, sender
/// and receiver.
void require_match(std::span<const RankProgram> programs);

}  // namespace equipoise
