#include "cli/collectives_output.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cli/collective_json.hpp"
#include "cli/json_text.hpp"

namespace stepcast::cli {

using Json = nlohmann::ordered_json;

namespace {

std::string time_text(Seconds seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string by_messages_text(const std::vector<PlayedOut>& runs) {
  std::string text = fmt::format("  {:<20} {:>8} {:>9} {:>11} {:>12} {:>11}\n", "by messages",
                                 "channels", "messages", "time", "closed form", "difference");
  for (const PlayedOut& run : runs) {
    const double thousandths = std::round(1000 * (run.seconds / run.closed_form - 1)) + 0.0;
    text += fmt::format("  {:<20} {:>8} {:>9} {:>11} {:>12} {:>+9.1f} %\n",
                        fmt::format("{}/{}", to_string(run.algorithm), to_string(run.protocol)),
                        run.channels, run.messages, time_text(run.seconds),
                        time_text(run.closed_form), thousandths / 10);  // + 0.0: no -0.0
  }
  return text;
}

}  // namespace

std::string collective_size_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.3f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.3f} MB", bytes / 1e6);
  return fmt::format("{:.0f} B", bytes);
}

std::string to_text(const SideBySide& a) {
  const double size = static_cast<double>(a.bytes);
  const bool timed = !a.machine.empty();
  std::string text;
  if (timed) {
    text += fmt::format("{} of {} on {} GPUs, {} x {}: {:.4g} GB/s a GPU within a node", a.op,
                        collective_size_text(size), a.ranks, a.nodes, a.machine, a.rates.gpu_gbps);
    if (a.nodes > 1) text += fmt::format(" alone, {:.4g} GB/s a node between", a.rates.node_gbps);
    text += '\n';
  } else {
    text += fmt::format("{} of {} on {} ranks\n", a.op, collective_size_text(size), a.ranks);
  }
  text += fmt::format("  {:<20} {:>7} {:>14} {:>9}  {:<10}{}\n", "algorithm", "steps", "sent a GPU",
                      "of size", "grows with", timed ? "      time" : "");
  for (const AlgorithmCost& cost : a.algorithms) {
    text += fmt::format("  {:<20} {:>7} {:>14} {:>8.3f}x  ", to_string(cost.algorithm), cost.steps,
                        collective_size_text(cost.bytes_sent), cost.bytes_sent / size);
    const std::string growth = cost.growth == "no" ? "nothing" : cost.growth;
    text += timed ? fmt::format("{:<10}{:>10}\n", growth, time_text(cost.seconds)) : growth + "\n";
  }
  if (a.nccl) {
    text += fmt::format("  NCCL takes {}/{} on {} channels: {}\n",
                        to_string(a.nccl->choice.algorithm), to_string(a.nccl->choice.protocol),
                        a.nccl->choice.channels, time_text(a.nccl->seconds));
  } else {
    text += "  --cluster NAME adds the time on its links and NCCL's choice\n";
  }
  return a.by_messages.empty() ? text : text + by_messages_text(a.by_messages);
}

std::string to_json(const SideBySide& a) {
  const bool timed = !a.machine.empty();
  Json algorithms = Json::array();
  for (const AlgorithmCost& cost : a.algorithms) {
    algorithms.push_back({{"algorithm", to_string(cost.algorithm)},
                          {"steps", cost.steps},
                          {"sent_bytes", cost.bytes_sent},
                          {"grows_with", cost.growth == "no" ? Json() : Json(cost.growth)},
                          {"time_s", timed ? Json(cost.seconds) : Json()}});
  }
  Json messages = Json::array();
  for (const PlayedOut& run : a.by_messages) {
    messages.push_back({{"algorithm", to_string(run.algorithm)},
                        {"protocol", to_string(run.protocol)},
                        {"channels", run.channels},
                        {"messages", run.messages},
                        {"time_s", run.seconds},
                        {"closed_form_s", run.closed_form}});
  }
  return json_text({{"schema", "stepcast.collectives/1"},
                    {"op", a.op},
                    {"bytes", a.bytes},
                    {"ranks", a.ranks},
                    {"machine", timed ? Json(a.machine) : Json()},
                    {"nodes", timed ? Json(a.nodes) : Json()},
                    {"gpu_gbps", timed ? Json(a.rates.gpu_gbps) : Json()},
                    {"node_gbps", timed && a.nodes > 1 ? Json(a.rates.node_gbps) : Json()},
                    {"algorithms", algorithms},
                    {"nccl", a.nccl ? collective_json(*a.nccl) : Json()},
                    {"by_messages", a.by_messages.empty() ? Json() : messages}});
}

}  // namespace stepcast::cli
