#pragma once

#include <vector>

#include "equipoise/base/ids.h"

namespace equipoise {

/// One training document. Invariant: 0 <= loss_tokens <= length_tokens.
/// A document of 0 tokens is listed and counted as trained, and is never part of a sequence.
struct Document {
  DocId id;
  int64_t length_tokens = 0;
  int64_t loss_tokens = 0;  ///< real targets; by default one less than the length, the last token has no next one
  bool operator==(const Document&) const = default;
};

/// All documents of a run and the order in which they arrive.
struct Corpus {
  std::vector<Document> documents;  ///< by id
  std::vector<DocId> order;         ///< a permutation of the ids: position in the arrival order -> document
};

}  // namespace equipoise
