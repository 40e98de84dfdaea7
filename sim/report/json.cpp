#include <nlohmann/json.hpp>

#include "sim/report/report.hpp"

namespace stepcast {

namespace {

using Json = nlohmann::ordered_json;

Json split_json(const Report& r) {
  const TimeSplit& s = r.split;
  return {{"compute", s.compute},        {"copies", s.copies}, {"interference", s.interference},
          {"optimizer", s.optimizer},    {"host", s.host},     {"other", s.other},
          {"exposed", s.exposed_total()}};
}

Json collective_json(const CollectiveRow& row) {
  const CollectiveChoice& choice = row.cost.choice;
  const bool copies = choice.channels == 0;
  return {{"kind", to_string(row.kind)},
          {"axis", to_string(row.axis)},
          {"ranks", row.ranks},
          {"dtype", to_string(row.dtype)},
          {"bytes", row.bytes},
          {"calls", row.calls},
          {"algorithm", copies ? "peer_copies" : to_string(choice.algorithm)},
          {"protocol", copies ? "none" : to_string(choice.protocol)},
          {"channels", choice.channels},
          {"solo_s", row.cost.seconds},
          {"mean_s", row.mean_seconds},
          {"busbw_gbps", row.busbw_gbps},
          {"sent_intra_bytes", bytes_sent_intra(row)},
          {"sent_inter_bytes", bytes_sent_inter(row)},
          {"provenance", to_string(row.cost.provenance)}};
}

// By collective kind, all sizes and axes together.
Json sent_json(const Report& r) {
  Json sent = Json::object();
  for (const CollectiveRow& row : r.collectives) {
    Json& entry = sent[std::string(to_string(row.kind))];
    if (entry.is_null()) entry = {{"intra_node", 0.0}, {"inter_node", 0.0}, {"total", 0.0}};
    const double intra = bytes_sent_intra(row), inter = bytes_sent_inter(row);
    entry["intra_node"] = entry["intra_node"].get<double>() + intra;
    entry["inter_node"] = entry["inter_node"].get<double>() + inter;
    entry["total"] = entry["total"].get<double>() + intra + inter;
  }
  return sent;
}

Json reserved_json(const RoleMemory& role) {
  if (!role.reserved) return {};
  const ReservedMemory& r = *role.reserved;
  return {{"peak", r.peak},
          {"peak_moment", r.moment},
          {"allocated", r.allocated},
          {"waiting", r.waiting},
          {"cached", r.cached},
          {"peak_active", r.peak_active},
          {"retries", r.retries},
          {"retry_wait_s", r.retry_wait},
          {"retried_step_s", r.retried_step > 0 ? Json(r.retried_step) : Json()},
          {"out_of_memory", r.out_of_memory.empty() ? Json() : Json(r.out_of_memory)}};
}

Json memory_json(const Report& r) {
  Json roles = Json::object();
  for (const RoleMemory& role : r.memory) {
    Json by_kind = Json::object();
    for (const MemoryRow& row : role.rows) by_kind[row.kind] = row.bytes;
    roles[role.role] = {
        {"ranks", role.ranks},           {"peak", role.peak},  {"peak_moment", role.peak_moment},
        {"persistent", role.persistent}, {"at_peak", by_kind}, {"reserved", reserved_json(role)}};
  }
  return roles;
}

Json class_json(const PerturbedClass& row) {
  Json waits = Json::array();
  for (const PeerWait& wait : row.waits) waits.push_back({{"op", wait.op}, {"s", wait.seconds}});
  Json slower = Json::array();
  for (const PeerWait& each : row.slower) {
    slower.push_back({{"op", each.op}, {"s", each.seconds}});
  }
  Json stall;
  if (!row.stalled_at.empty()) {
    stall = {{"op", row.stalled_at}, {"since_s", row.stalled_since}, {"for", row.stalled_for}};
  }
  return {{"name", row.name},           {"ranks", row.ranks},     {"count", row.count},
          {"perturbed", row.perturbed}, {"waited_s", row.waited}, {"waits", waits},
          {"slower", slower},           {"stalled", stall}};
}

Json perturbed_json(const Report& r) {
  if (!r.perturbed) return {};
  const PerturbedStep& p = *r.perturbed;
  Json classes = Json::array();
  for (const PerturbedClass& row : p.classes) classes.push_back(class_json(row));
  Json timed_out;
  if (p.torn_down) {
    timed_out = {{"op", p.timed_out_at}, {"timeout_s", p.timeout}, {"job_ends_s", p.ended_at}};
  }
  Json jitter;
  if (p.jitter) {
    jitter = {{"persistent", p.jitter->persistent},
              {"kernel", p.jitter->kernel},
              {"expected_s", p.jitter->expected},
              {"drawn_s", p.jitter->drawn ? Json(*p.jitter->drawn) : Json()}};
  }
  return {{"asked", p.asked},
          {"once", p.once},
          {"step_time_s", p.torn_down ? Json() : Json(p.step_time)},
          {"lost_s", p.torn_down ? Json() : Json(p.lost())},
          {"goodput", p.goodput},
          {"samples_per_s", p.samples_per_second},
          {"tokens_per_s", r.images ? Json() : Json(p.tokens_per_second)},
          {"timed_out", timed_out},
          {"jitter", jitter},
          {"classes", classes}};
}

}  // namespace

std::string to_json(const Report& r) {
  Json exposed = Json::object();
  for (const ExposedPart& part : r.split.exposed) exposed[part.cause] = part.seconds;
  Json provenance = Json::object();
  for (const Provenance p : {Provenance::measured, Provenance::modelled, Provenance::extrapolated,
                             Provenance::assumed}) {
    provenance[std::string(to_string(p))] = r.split.by_provenance[static_cast<std::size_t>(p)];
  }
  Json rows = Json::array();
  for (const CollectiveRow& row : r.collectives) rows.push_back(collective_json(row));

  const auto text_only = [&](double value) { return r.images ? Json() : Json(value); };

  const Json document = {
      {"schema", "stepcast.forecast/1"},
      {"scenario",
       {{"model", r.model},
        {"model_source", r.model_source},
        {"parameters", r.parameters},
        {"seq_len", r.images ? Json() : Json(r.seq_len)},
        {"image_size", r.images ? Json(r.image_size) : Json()},
        {"channels_last", r.channels_last ? Json(*r.channels_last) : Json()},
        {"micro_batch", r.micro_batch},
        {"accumulation", r.accumulation},
        {"checkpointing", r.checkpointing},
        {"strategy", r.strategy},
        {"precision", r.precision},
        {"replicate", r.mesh.replicate},
        {"shard", r.mesh.shard},
        {"machine", r.machine},
        {"gpu", r.gpu},
        {"nodes", r.nodes},
        {"gpus_per_node", r.gpus_per_node},
        {"gpus", r.gpus},
        {"network", r.network},
        {"engine", r.engine},
        {"profile", r.profile},
        {"nccl_version", r.nccl_version},
        {"corrected_classes", r.corrected_classes},
        {"step", r.step}}},
      {"step_time_s", r.step_time},
      {"samples_per_step", r.samples_per_step},
      {"samples_per_s", r.samples_per_second},
      {"samples_per_s_per_gpu", r.samples_per_second_per_gpu},
      {"tokens_per_step", text_only(r.tokens_per_step)},
      {"tokens_per_s", text_only(r.tokens_per_second)},
      {"tokens_per_s_per_gpu", text_only(r.tokens_per_second_per_gpu)},
      {"tflops_per_gpu", r.tflops_per_gpu},
      {"hardware_tflops_per_gpu", r.hardware_tflops_per_gpu},
      {"mfu", r.mfu},
      {"hfu", r.hfu},
      {"peak_tflops", r.peak_tflops},
      {"peak_dtype", r.peak_dtype},
      {"flops_per_sample", r.flops_per_sample},
      {"flops_per_token", text_only(r.flops_per_token)},
      {"time_s", split_json(r)},
      {"exposed_s", exposed},
      {"bytes_sent_per_gpu", sent_json(r)},
      {"collectives", rows},
      {"memory_capacity_bytes", r.capacity},
      {"memory_bytes", memory_json(r)},
      {"fits", r.fits},
      {"smallest_change", r.smallest_change.empty() ? Json() : Json(r.smallest_change)},
      {"perturbed", perturbed_json(r)},
      {"provenance", provenance},
      {"notes", r.notes}};
  return document.dump(2) + "\n";
}

}  // namespace stepcast
