#pragma once

#include <span>

#include "equipoise/model/document.h"
#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"

namespace equipoise {

/// Documents from their lengths, with loss_tokens = max(0, length - 1), in arrival order: the input's, or with shuffle Fisher-Yates from the last
/// index down, j = next % (i + 1), splitmix64 seeded with seed + epoch.
/// Errors: InputError for a negative length or one above 2^40, naming the document.
Corpus make_corpus(std::span<const int64_t> lengths_tokens, const Arrival& arrival);

/// The same for documents that carry their own loss_tokens, by id.
Corpus make_corpus(std::vector<Document> documents, const Arrival& arrival);

/// The pieces of a document that packing may place, after the over-long policy: the document itself, pieces of `window_tokens` (split), its first
/// window_tokens (truncate), or none (drop, or length 0). Counts what is cut in `untrained`.
/// Errors: InputError under policy error, naming the document and its length.
std::vector<Segment> admit_document(const Document& document, int64_t window_tokens, Overlong policy, Untrained& untrained);

}  // namespace equipoise
