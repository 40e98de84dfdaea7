#include <nlohmann/json.hpp>

#include "sim/plan/plan.hpp"

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

Json binding_json(const Shares& shares) {
  const Limit first = largest(shares), second = largest(shares, first);
  Json all = Json::object();
  for (std::size_t i = 0; i < limits; ++i) {
    all[std::string(to_string(static_cast<Limit>(i)))] = shares[i];
  }
  return {{"constraint", to_string(first)},
          {"share", shares[static_cast<std::size_t>(first)]},
          {"then", to_string(second)},
          {"then_share", shares[static_cast<std::size_t>(second)]},
          {"shares", all}};
}

Json checkpoint_json(CheckpointWriter writer, bool background, const CheckpointCost& cost,
                     const CheckpointPlan& plan) {
  return {{"mode", std::string(to_string(writer)) + (background ? ", background" : ", blocking")},
          {"stall_s", cost.stall},
          {"write_s", cost.stall + cost.lag},
          {"read_s", cost.read},
          {"host_bytes", cost.host_bytes},
          {"fits_host", cost.fits_host},
          {"interval_s", plan.interval},
          {"young_s", plan.young},
          {"daly_s", plan.daly},
          {"goodput", plan.goodput}};
}

Json next_json(const NextNode& n) {
  if (n.nodes == 0) return {{"why_not", n.why_not}};
  return {{"nodes", n.nodes},
          {"rate_gain", n.rate_gain},
          {"share", n.share},
          {"days_saved", n.days_saved},
          {"amount_added", n.amount_added},
          {"cost_added_usd", or_null(n.cost_added)}};
}

Json point_json(const Plan& plan, const PlanPoint& p, int rank) {
  const Trial& t = p.trial;
  const std::string unit = plan.unit();
  Json json = {{"rank", rank},
               {"machine", p.machine},
               {"machine_name", p.machine_name},
               {"gpu", p.gpu},
               {"nodes", t.choice.nodes},
               {"gpus", p.gpus},
               {"strategy", p.strategy},
               {"micro_batch", t.choice.micro_batch},
               {"accumulation", t.choice.accumulation},
               {"checkpointing", checkpointing_name(t.choice.checkpointing)},
               {"expandable_segments", t.choice.expandable},
               {"global_batch_samples", t.samples},
               {"global_batch_" + unit, p.amount_a_step},
               {"step_s", t.step},
               {"step_low_s", t.low},
               {"step_high_s", t.high},
               {unit + "_per_second", p.rate},
               {unit + "_per_second_per_gpu", p.rate / p.gpus},
               {"mfu", t.mfu},
               {"hfu", t.hfu},
               {unit, p.amount},
               {"steps", p.amount / p.amount_a_step},
               {"days", p.days},
               {"days_low", p.days_low},
               {"days_high", p.days_high},
               {"days_without_failures", p.days_without_failures},
               {"goodput", p.interval.goodput},
               {"cost_usd", or_null(p.cost)},
               {"cost_low_usd", or_null(p.cost_low)},
               {"cost_high_usd", or_null(p.cost_high)},
               {"kwh", or_null(p.kwh)},
               {"memory_peak_bytes", t.peak},
               {"capacity_bytes", t.capacity},
               {"headroom", p.headroom},
               {"binding", binding_json(t.shares)}};
  const FailureOptions& f = plan.asked.failures;
  if (f.none) {
    json["checkpoint"] = nullptr;
  } else {
    json["checkpoint"] = checkpoint_json(f.writer, f.background, p.checkpoint, p.interval);
    json["checkpoint"]["bytes"] = plan.checkpoint_bytes;
    json["checkpoint"]["mtbf_s"] = p.rates.mtbf;
  }
  json["next_node"] = next_json(p.next);
  json["on_front"] = p.on_front;
  json["meets"] = p.meets;
  json["command"] = p.command;
  return json;
}

Json machine_json(const PlannedMachine& m) {
  return {{"machine", m.name},
          {"machine_name", m.full_name},
          {"gpu", m.gpu},
          {"gpus_per_node", m.gpus_per_node},
          {"usd_per_gpu_hour", or_null(m.price.usd_per_gpu_hour)},
          {"price_source", m.price.price_source},
          {"price_date", m.price.price_date},
          {"node_watts", m.node_watts > 0 ? Json(m.node_watts) : Json()},
          {"power_source", m.price.power_source},
          {"best", m.best >= 0 ? Json(m.best) : Json()},
          {"why_not", m.why_not}};
}

}  // namespace

std::string to_json(const Plan& plan) {
  const PlanQuestion& q = plan.asked;
  Json json = {{"schema", "stepcast.plan/1"},
               {"model", plan.model},
               {"parameters", plan.parameters},
               {"unit", plan.unit()},
               {"seq_len", plan.images ? Json() : Json(plan.seq_len)},
               {"asked",
                {{plan.unit(), or_null(q.amount)},
                 {"deadline_days", or_null(q.deadline_days)},
                 {"budget_usd", or_null(q.budget_usd)},
                 {"max_nodes", q.scenario.nodes.value_or(q.most_nodes)},
                 {"max_gpus", q.most_gpus > 0 ? Json(q.most_gpus) : Json()},
                 {"headroom", q.headroom},
                 {"global_batch_tokens", or_null(q.global_batch_tokens)},
                 {"global_batch_samples", or_null(q.global_batch_samples)},
                 {"rank", to_string(plan.rank)}}}};
  json["machines"] = Json::array();
  for (const PlannedMachine& m : plan.machines) json["machines"].push_back(machine_json(m));
  json["points"] = Json::array();
  int rank = 0;
  for (const PlanPoint& p : plan.points) json["points"].push_back(point_json(plan, p, ++rank));
  json["front"] = plan.front;
  json["best"] = plan.points.empty() ? Json() : Json(0);
  json["checkpoint_bytes"] = plan.checkpoint_bytes;
  json["checkpoint_ways"] = Json::array();
  for (const CheckpointWay& w : plan.ways) {
    json["checkpoint_ways"].push_back(checkpoint_json(w.writer, w.background, w.cost, w.plan));
  }
  if (plan.simulated) {
    const JobRuns& r = *plan.simulated;
    json["simulated"] = {{"runs", r.runs}, {"seed", q.failures.seed}, {"mean_s", r.mean},
                         {"low_s", r.low}, {"high_s", r.high},        {"failures", r.failures}};
  }
  json["assumptions"] = plan.assumptions;
  json["counts"] = {{"configurations", plan.counts.configurations},
                    {"memory_replays", plan.counts.replays},
                    {"screened", plan.counts.screened},
                    {"simulated", plan.counts.confirmed}};
  return json.dump(2) + "\n";
}

}  // namespace stepcast
