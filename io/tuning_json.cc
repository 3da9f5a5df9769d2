#include "io/tuning_json.h"

namespace equipoise {
namespace {

OrderedJson trial_json(const QueueTrial& trial) {
  return {{"queue_tokens", trial.queue_tokens},
          {"weighted_imbalance_ppm", trial.weighted_imbalance_ppm},
          {"mean_delay_ppm", trial.mean_delay_ppm}};
}

}  // namespace

void put_tuned(OrderedJson& report, const std::optional<TunedQueues>& tuned) {
  if (!tuned) return;
  OrderedJson frontier = OrderedJson::array();
  for (const QueueTrial& trial : tuned->frontier) frontier.push_back(trial_json(trial));
  report["tuned_queues"] = {{"best", trial_json(tuned->best)},
                            {"meets_goal", tuned->meets_goal},
                            {"frontier", frontier},
                            {"steps", tuned->steps},
                            {"trials", tuned->trials}};
}

}  // namespace equipoise
