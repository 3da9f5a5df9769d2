// Small languages of single flags: meshes, masks, lists of numbers.
#include <algorithm>
#include <array>
#include <charconv>

#include "cli/planning_flags.h"
#include "equipoise/base/errors.h"

namespace equipoise {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

Mask parse_mask(const std::string& text, int64_t layers_if_none) {
  const std::string remedy = "give masks as causal:31,sliding_window=4096:1";
  const std::vector<std::string> halves = split(text, ':');
  const std::vector<std::string> kind = split(halves[0], '=');
  if (halves.size() > 2 || kind.size() > 2) throw InputError("'" + text + "' is no mask", "option --masks", remedy);
  Mask mask;
  mask.layers = halves.size() == 2 ? parse_integer(halves[1], "--masks", remedy) : layers_if_none;
  if (kind.size() == 2) mask.window_tokens = parse_integer(kind[1], "--masks", remedy);
  for (const MaskKind known : {MaskKind::causal, MaskKind::full, MaskKind::sliding_window}) {
    if (kind[0] != name(known)) continue;
    mask.kind = known;
    return mask;
  }
  throw InputError("'" + kind[0] + "' is no kind of mask", "option --masks",
                   "use causal, full or sliding_window=TOKENS");
}

}  // namespace

int64_t parse_integer(const std::string& text, const std::string& flag, const std::string& remedy) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw InputError("'" + text + "' is not an integer of 64 bits", "option " + flag, remedy);
  return value;
}

Mesh parse_mesh(const std::string& text) {
  Mesh mesh;
  const std::array<std::pair<std::string, int64_t*>, 4> axes = {
      {{"dp", &mesh.dp}, {"pp", &mesh.pp}, {"cp", &mesh.cp}, {"tp", &mesh.tp}}};
  const std::string remedy = "give a mesh as dp=8,pp=1,cp=2,tp=1";
  std::string seen;
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> sides = split(part, '=');
    int64_t* size = nullptr;
    for (const auto& [axis, place] : axes)
      if (axis == sides[0]) size = place;
    if (sides.size() != 2 || !size) throw InputError("'" + part + "' is no axis of a mesh", "option --mesh", remedy);
    if (seen.find(sides[0]) != std::string::npos)
      throw InputError("axis " + sides[0] + " is given twice", "option --mesh", remedy);
    seen += sides[0] + " ";
    *size = parse_integer(sides[1], "--mesh", remedy);
    if (*size < 1)
      throw InputError("axis " + sides[0] + " has " + sides[1] + " ranks", "option --mesh",
                       "give at least 1 for each axis");
  }
  return mesh;
}

std::vector<Mask> parse_masks(const std::string& text, int64_t model_layers) {
  if (text.empty()) return {Mask{.kind = MaskKind::causal, .window_tokens = 0, .layers = model_layers}};
  const std::vector<std::string> parts = split(text, ',');
  if (parts.size() > 1 && text.find(':') == std::string::npos)
    throw InputError("'" + text + "' does not say how many layers each mask has", "option --masks",
                     "give masks as causal:31,sliding_window=4096:1");
  std::vector<Mask> masks;
  for (const std::string& part : parts) masks.push_back(parse_mask(part, parts.size() == 1 ? model_layers : 0));
  return masks;
}

std::vector<Strategy> parse_strategies(const std::string& text) {
  std::vector<Strategy> strategies;
  for (const std::string& part : split(text, ',')) {
    const Strategy strategy = parse_strategy(part);
    if (std::find(strategies.begin(), strategies.end(), strategy) != strategies.end())
      throw InputError("strategy " + part + " is given twice", "option --strategies", "give each once");
    strategies.push_back(strategy);
  }
  return strategies;
}

std::vector<int64_t> parse_integers(const std::string& text, const std::string& flag) {
  std::vector<int64_t> values;
  if (text.empty()) return values;
  for (const std::string& part : split(text, ','))
    values.push_back(parse_integer(part, flag, "give integers with commas"));
  return values;
}

}  // namespace equipoise
