// The report of `advise` as JSON: the structs of study/advise.h under their own names.
#include "io/inputs_json.h"
#include "io/reports.h"

namespace equipoise {
namespace {

OrderedJson size_json(const PoolMeasures& size) {
  return {{"pool", size.pool},
          {"leaves_node", size.leaves_node},
          {"steps", size.steps},
          {"tokens", size.tokens},
          {"imbalance_ppm", size.imbalance_ppm},
          {"variation_ppm", size.variation_ppm},
          {"chance_ppm", size.chance_ppm},
          {"mean_sent_bytes", size.mean_sent_bytes},
          {"max_sent_bytes", size.max_sent_bytes},
          {"held_bytes", size.held_bytes},
          {"exchange_ns", size.exchange_ns},
          {"step_ns", size.step_ns},
          {"token_ps", size.token_ps}};
}

}  // namespace

std::string report_json(const AdviseReport& report) {
  OrderedJson sizes = OrderedJson::array();
  for (const PoolMeasures& size : report.sizes) sizes.push_back(size_json(size));
  const OrderedJson json = {{"hardware", report.inputs.cost.hardware},
                            {"default_hardware", report.default_hardware},
                            {"documents", report.documents},
                            {"chosen_pool", report.sizes[report.choice.chosen].pool},
                            {"fastest_pool", report.sizes[report.choice.fastest].pool},
                            {"reason", report.reason},
                            {"pools", sizes},
                            {"inputs", inputs_json(report.inputs)}};
  return json.dump(1) + "\n";
}

}  // namespace equipoise
