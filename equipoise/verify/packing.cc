// Packing is book-keeping: what was held and what arrived comes in, what is trained, held and given up goes out. Each
// document gets an account of token ranges, and the account must balance; the rest are counts, caps and the promises of
// order and delay.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "equipoise/verify/report.h"
#include "equipoise/verify/verify.h"

namespace equipoise {
namespace {

using namespace verifying;

constexpr int64_t most_tokens = int64_t{1} << 40;  ///< of a document: sums of them do not wrap

/// One document's tokens: in and out.
struct Account {
  const Document* document = nullptr;
  int64_t position = 0;  ///< index in StepPlan::documents, which is in order of arrival
  bool arrived = true;   ///< in this step; otherwise it was held
  int64_t since_step = 0;
  int64_t extent_tokens = 0;  ///< what the over-long policy leaves
  Intervals in;
  Intervals out;
};
using Accounts = std::map<DocId, Account>;

struct Books {
  const PlanInputs& inputs;
  const PackerState& before;
  const StepPlan& step;
  Accounts accounts;
  Violations found;
};

/// Packings that keep the order of arrival and cut documents at sequence borders.
bool packs_in_order(const PlanInputs& inputs) {
  if (inputs.strategy == Strategy::fixed || inputs.strategy == Strategy::wlb) return false;
  return inputs.strategy != Strategy::equipoise || inputs.delay.max_delay_steps == 0;
}

bool looks_ahead(const PlanInputs& inputs) {
  return inputs.strategy == Strategy::equipoise && inputs.delay.max_delay_steps > 0;
}

/// Queues of `wlb`, or sequences that `fixed` plans ahead.
int64_t places_to_wait(const PlanInputs& inputs) {
  const Delay& delay = inputs.delay;
  if (inputs.strategy == Strategy::fixed) return (delay.repack_window_steps - 1) * inputs.sequences();
  return static_cast<int64_t>(delay.queue_tokens.size());
}

/// Packings that fill windows of S tokens; the others may use all that memory allows.
bool has_fixed_window(const PlanInputs& inputs) { return packs_in_order(inputs) || inputs.strategy == Strategy::fixed; }

std::string where(const StepPlan& step) { return text("step ", step.step); }
std::string where(const StepPlan& step, DocId document) {
  return text("document ", document.value, " of step ", step.step);
}
std::string where(const StepPlan& step, int64_t sequence) {
  return text("sequence ", sequence, " of step ", step.step);
}

void check_arrivals(Books& books);
void open_accounts(Books& books);
void check_untrained(Books& books);
void book_sequences(Books& books);
void book_held(Books& books);
void balance_accounts(Books& books);
void check_order(Books& books);
void check_delay(Books& books);
void check_loss_tokens(Books& books);

}  // namespace

Violations check_packing(const PlanInputs& inputs, const PackerState& before, const StepPlan& step) {
  Books books{inputs, before, step, {}, {}};
  check_arrivals(books);
  open_accounts(books);
  check_untrained(books);
  book_sequences(books);
  book_held(books);
  balance_accounts(books);
  if (packs_in_order(inputs)) check_order(books);
  check_delay(books);
  check_loss_tokens(books);
  return books.found;
}

namespace {

int64_t extent_tokens(const PlanInputs& inputs, const Document& document) {
  const int64_t window = inputs.limits.window_tokens;
  if (document.length_tokens <= window || inputs.arrival.overlong == Overlong::split) return document.length_tokens;
  return inputs.arrival.overlong == Overlong::truncate ? window : 0;
}

void check_arrivals(Books& books) {
  const auto& [inputs, before, step, accounts, found] = books;
  const auto expect = [&](int64_t value, int64_t right, const char* what) {
    if (value != right)
      books.found.push_back({"arrivals in order", where(step), text(what, " is ", value, ", expected ", right)});
  };
  expect(step.step, before.step, "the step");
  expect(step.state_after.step, std::min(before.step, no_limit - 1) + 1, "the step of the state after");
  expect(step.arrived.first, before.position, "the first arrival");
  expect(step.state_after.position, step.arrived.second, "the position after");
  auto tokens = static_cast<uint64_t>(before.arrived_tokens);  // absurd lengths must not overflow
  for (const Document& document : step.documents) {
    const auto is_held = [&](const Held& held) { return held.document == document.id; };
    if (std::none_of(before.held.begin(), before.held.end(), is_held))
      tokens += static_cast<uint64_t>(extent_tokens(books.inputs, document));
  }
  expect(step.state_after.arrived_tokens, static_cast<int64_t>(tokens), "the tokens arrived");
  if (step.arrived.second < step.arrived.first)
    books.found.push_back({"arrivals in order", where(step), "arrivals end before they begin"});
}

/// Held documents come first, then arrivals. Without shuffle a position is the id, and they are known exactly.
void check_ids(Books& books, int64_t held_documents) {
  const StepPlan& step = books.step;
  const auto listed = static_cast<int64_t>(step.documents.size());
  const bool forward = step.arrived.first >= 0 && step.arrived.first <= step.arrived.second;
  const int64_t arrived = forward ? step.arrived.second - step.arrived.first : 0;
  if (listed != held_documents + arrived)
    books.found.push_back({"documents listed", where(step),
                           text(listed, " documents, expected ", held_documents, " held and ", arrived, " arrived")});
  int64_t next = step.arrived.first;
  bool arriving = false;
  DocId last;
  for (const Document& document : step.documents) {
    const Account& account = books.accounts.at(document.id);
    if (arriving && !account.arrived)
      books.found.push_back({"documents listed", where(step, document.id), "was held, but stands after an arrival"});
    arriving = arriving || account.arrived;
    if (books.inputs.arrival.shuffle) continue;
    if (document.id <= last)
      books.found.push_back({"documents listed", where(step, document.id), "is not in the order of arrival"});
    if (account.arrived && document.id.value != next++)
      books.found.push_back({"documents listed", where(step, document.id), text("arrived at position ", next - 1)});
    last = document.id;
  }
}

void open_accounts(Books& books) {
  const StepPlan& step = books.step;
  int64_t position = 0;
  for (const Document& document : step.documents) {
    const bool sound = document.id.value >= 0 && document.length_tokens >= 0 && document.length_tokens <= most_tokens &&
                       document.loss_tokens >= 0 && document.loss_tokens <= document.length_tokens;
    const int64_t extent = sound ? extent_tokens(books.inputs, document) : 0;
    const Account account{&document, position++, true, step.step, extent, {}, {}};
    if (!sound || !books.accounts.emplace(document.id, account).second)
      books.found.push_back(
          {"documents listed", where(step, document.id), sound ? "is listed twice" : "has impossible lengths"});
    books.accounts.try_emplace(document.id, account);
  }
  std::set<DocId> held;
  for (const Held& piece : books.before.held) {
    held.insert(piece.document);
    const auto entry = books.accounts.find(piece.document);
    if (entry == books.accounts.end() ||
        !inside(piece.begin_tokens, piece.length_tokens, entry->second.extent_tokens)) {
      books.found.push_back(
          {"documents listed", where(step, piece.document), "was held, but is not listed with these tokens"});
      continue;
    }
    if (piece.since_step < 0 || piece.since_step >= step.step)
      books.found.push_back(
          {"held since", where(step, piece.document), text("was held since step ", piece.since_step)});
    entry->second.arrived = false;
    entry->second.since_step = std::clamp<int64_t>(piece.since_step, 0, std::max<int64_t>(step.step, 0));
    entry->second.in.push_back({piece.begin_tokens, piece.begin_tokens + piece.length_tokens});
  }
  for (auto& [id, account] : books.accounts)
    if (account.arrived && account.extent_tokens > 0) account.in.push_back({0, account.extent_tokens});
  check_ids(books, static_cast<int64_t>(held.size()));
}

void check_untrained(Books& books) {
  const auto& [inputs, before, step, accounts, found] = books;
  Untrained expected;
  for (const auto& [id, account] : accounts) {
    const int64_t length = account.document->length_tokens;
    if (!account.arrived || length <= inputs.limits.window_tokens) continue;
    if (inputs.arrival.overlong == Overlong::drop) expected.dropped.push_back({id, length});
    if (inputs.arrival.overlong == Overlong::truncate)
      expected.truncated.push_back({id, length - inputs.limits.window_tokens});
    if (inputs.arrival.overlong == Overlong::error)
      books.found.push_back(
          {"overlong refused", where(step, id), text("has ", length, " tokens, more than the window")});
  }
  const auto compare = [&](std::vector<std::pair<DocId, int64_t>> given, const auto& right, const char* what) {
    std::sort(given.begin(), given.end());
    if (given == right) return;
    const auto [a, b] = std::mismatch(given.begin(), given.end(), right.begin(), right.end());
    const DocId first = a == given.end() ? b->first : b == right.end() ? a->first : std::min(a->first, b->first);
    books.found.push_back({"untrained counted", where(step, first), text("is not ", what, " as the policy says")});
  };
  compare(step.untrained.dropped, expected.dropped, "dropped");
  compare(step.untrained.truncated, expected.truncated, "truncated");
}

/// Books tokens that go out, trained or held. Returns false for tokens that the document does not have.
bool book(Books& books, DocId document, int64_t begin, int64_t length, const std::string& place) {
  const auto entry = books.accounts.find(document);
  if (entry == books.accounts.end()) {
    books.found.push_back({"segment in document", place, text("document ", document.value, " is not in this step")});
    return false;
  }
  Account& account = entry->second;
  const int64_t window = books.inputs.limits.window_tokens;
  if (!inside(begin, length, account.extent_tokens)) {
    books.found.push_back({"segment in document", place,
                           text(length, " tokens from ", begin, " of document ", document.value, ", which has ",
                                account.extent_tokens, " to train")});
    return false;
  }
  const int64_t end = begin + length;
  account.out.push_back({begin, end});
  if (begin / window != (end - 1) / window)
    books.found.push_back({"segment in document", place,
                           text("passes a multiple of the window, where document ", document.value, " is cut")});
  const bool whole = begin % window == 0 && (length == window || end == account.extent_tokens);
  if (!packs_in_order(books.inputs) && !whole)
    books.found.push_back({"document kept whole", place, text("holds only a part of document ", document.value)});
  return true;
}

void book_sequences(Books& books) {
  const auto& [inputs, before, step, accounts, found] = books;
  const auto count = static_cast<int64_t>(step.sequences.size());
  if (count != inputs.sequences())
    books.found.push_back({"sequence count", where(step), text(count, " sequences, expected ", inputs.sequences())});
  const int64_t most = has_fixed_window(inputs) ? inputs.limits.window_tokens : inputs.limits.max_tokens;
  std::set<std::pair<DocId, int64_t>> pieces;
  bool empty = false;
  for (int64_t s = 0; s < count; ++s) {
    const Sequence& sequence = step.sequences[s];
    int64_t tokens = 0;
    for (const Segment& segment : sequence.segments) {
      if (!book(books, segment.document, segment.begin_tokens, segment.length_tokens, where(step, s))) continue;
      tokens += segment.length_tokens;
      pieces.insert({segment.document, segment.begin_tokens / inputs.limits.window_tokens});
    }
    empty = empty || sequence.segments.empty();
    if (tokens > most)
      books.found.push_back({"tokens within cap", where(step, s), text(tokens, " tokens, at most ", most)});
    if (static_cast<int64_t>(sequence.segments.size()) > inputs.limits.max_documents)
      books.found.push_back({"segments within cap", where(step, s),
                             text(sequence.segments.size(), " segments, at most ", inputs.limits.max_documents)});
  }
  if (empty && static_cast<int64_t>(pieces.size()) >= count)
    books.found.push_back(
        {"sequence empty", where(step), text(pieces.size(), " documents leave a sequence of ", count, " empty")});
}

void book_held(Books& books) {
  const auto& [inputs, before, step, accounts, found] = books;
  const int64_t queues = places_to_wait(inputs);
  for (const Held& piece : step.state_after.held) {
    const std::string place = text("held of ", where(step));
    if (!book(books, piece.document, piece.begin_tokens, piece.length_tokens, place)) continue;
    const int64_t since = accounts.at(piece.document).since_step;
    if (piece.since_step != since)
      books.found.push_back({"held since", where(step, piece.document),
                             text("held since step ", piece.since_step, ", arrived in step ", since)});
    if (piece.queue < -1 || piece.queue >= queues)
      books.found.push_back({"held since", where(step, piece.document), text("queue ", piece.queue, " of ", queues)});
  }
}

void balance_accounts(Books& books) {
  for (auto& [id, account] : books.accounts) {
    const auto say = [&](const Intervals& parts, const char* what) {
      for (const Interval& part : parts)
        books.found.push_back({"token trained once", where(books.step, id), text("tokens ", text(part), " ", what)});
    };
    say(overlaps(account.in), "were held twice before");
    say(overlaps(account.out), "are trained or held twice");
    const Intervals in = merge(account.in);
    const Intervals out = merge(account.out);
    say(subtract(in, out), "are neither trained nor held");
    say(subtract(out, in), "were not there to be trained");
  }
}

/// The promise `order`: segments, then what stays held, as they arrived.
void check_order(Books& books) {
  std::pair<int64_t, int64_t> last = {-1, -1};
  const auto next = [&](DocId document, int64_t begin) {
    const auto entry = books.accounts.find(document);
    if (entry == books.accounts.end()) return;
    const std::pair<int64_t, int64_t> here = {entry->second.position, begin};
    if (here <= last)
      books.found.push_back(
          {"documents in order", where(books.step, document), text("tokens from ", begin, " come after later ones")});
    last = here;
  };
  for (const Sequence& sequence : books.step.sequences)
    for (const Segment& segment : sequence.segments) next(segment.document, segment.begin_tokens);
  for (const Held& piece : books.step.state_after.held) next(piece.document, piece.begin_tokens);
}

/// Looking ahead promises that nothing is ever late.
void check_hard_bound(Books& books, int64_t bound) {
  const auto check = [&](DocId document, int64_t age, const char* what) {
    if (age > bound)
      books.found.push_back(
          {"delay within bound", where(books.step, document), text(what, " after ", age, " steps, at most ", bound)});
  };
  for (const Sequence& sequence : books.step.sequences)
    for (const Segment& segment : sequence.segments)
      if (const auto entry = books.accounts.find(segment.document); entry != books.accounts.end())
        check(segment.document, books.step.step - entry->second.since_step, "is trained");
  for (const Held& piece : books.step.state_after.held)
    if (const auto entry = books.accounts.find(piece.document); entry != books.accounts.end())
      check(piece.document, books.step.step + 1 - entry->second.since_step, "can be trained only");
}

/// Elsewhere caps can force a piece to wait beyond the bound; but then nothing that arrived later may be trained before
/// it. A piece of `fixed` that has its place in the steps packed together waits for its turn among them.
void check_delay(Books& books) {
  const Delay& delay = books.inputs.delay;
  const bool fixed = books.inputs.strategy == Strategy::fixed;
  // What finds no room in its window of steps goes first in the next.
  const int64_t bound = fixed ? 2 * delay.repack_window_steps - 1 : delay.max_delay_steps;
  if (bound == no_bound) return;
  if (looks_ahead(books.inputs)) return check_hard_bound(books, bound);
  int64_t youngest = -1;
  for (const Sequence& sequence : books.step.sequences)
    for (const Segment& segment : sequence.segments) {
      const auto entry = books.accounts.find(segment.document);
      if (entry != books.accounts.end()) youngest = std::max(youngest, entry->second.since_step);
    }
  for (const Held& piece : books.step.state_after.held) {
    const auto entry = books.accounts.find(piece.document);
    if (entry == books.accounts.end() || (fixed && piece.queue >= 0)) continue;
    const int64_t since = entry->second.since_step;
    if (books.step.step - since >= bound && youngest > since)
      books.found.push_back({"delay within bound", where(books.step, piece.document),
                             text("waits since step ", since, " beyond ", bound, " steps, while a document of step ",
                                  youngest, " is trained")});
  }
}

/// A row has a target if the next token of the document exists; a cut by packing does not hide it, truncation does. A
/// document that counts its own targets is counted when its last token is trained.
void check_loss_tokens(Books& books) {
  int64_t expected = 0;
  for (const Sequence& sequence : books.step.sequences)
    for (const Segment& segment : sequence.segments) {
      const auto entry = books.accounts.find(segment.document);
      if (entry == books.accounts.end()) continue;
      const auto& [document, position, arrived, since, extent, in, out] = entry->second;
      if (!inside(segment.begin_tokens, segment.length_tokens, extent)) continue;
      const int64_t end = segment.begin_tokens + segment.length_tokens;
      const bool counts_itself = document->loss_tokens != document->length_tokens - 1;
      if (counts_itself)
        expected += end == extent ? std::min(document->loss_tokens, extent) : 0;
      else
        expected += std::min(end, extent - 1) - segment.begin_tokens;
    }
  if (books.step.loss_tokens != expected)
    books.found.push_back(
        {"loss tokens counted", where(books.step), text(books.step.loss_tokens, " targets, expected ", expected)});
}

}  // namespace
}  // namespace equipoise
