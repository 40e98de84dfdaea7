// The page of `stepcast compare`.
#include <fmt/format.h>

#include <cmath>

#include "sim/explain/compare.hpp"
#include "sim/report/format.hpp"

namespace stepcast {
namespace {

std::string signed_ms(Seconds seconds) { return fmt::format("{:+.2f}", seconds * 1e3); }
std::string ms(Seconds seconds) { return grouped(seconds * 1e3, 2); }

std::string side(const Report& r, const std::string& name) {
  return fmt::format("{}: {}, {} ({}), micro-batch {}{}, on {} GPU{}: {} x {}{}", name, r.model,
                     r.strategy, r.precision, r.micro_batch,
                     r.accumulation > 1 ? fmt::format(" x {} accumulated", r.accumulation) : "",
                     grouped(r.gpus), r.gpus == 1 ? "" : "s", r.nodes, r.machine_name,
                     r.fits ? "" : "; does not fit in memory");
}

template <typename Format>
std::string row(const char* what, double a, double b, Format&& format) {
  return fmt::format("{:<32}{:>16}{:>16}{:>14}\n", what, format(a), format(b),
                     a > 0 ? fmt::format("{:+.1f} %", 100 * (b / a - 1)) : "");
}

}  // namespace

std::string to_text(const StepComparison& c) {
  std::string text = folded("A  ", side(c.a, c.name_a)) + folded("B  ", side(c.b, c.name_b));
  text += fmt::format("\n{:<32}{:>16}{:>16}{:>14}\n", "", "A", "B", "B beside A");
  const auto plain = [](double v) { return grouped(v, v < 100 ? 2 : 0); };
  text += row("step time, ms", c.a.step_time, c.b.step_time, [](double s) { return ms(s); });
  if (!c.a.images && !c.b.images) {
    text += row("tokens/s", c.a.tokens_per_second, c.b.tokens_per_second, plain);
    text +=
        row("tokens/s/GPU", c.a.tokens_per_second_per_gpu, c.b.tokens_per_second_per_gpu, plain);
  } else {
    text += row("samples/s", c.a.samples_per_second, c.b.samples_per_second, plain);
    text +=
        row("samples/s/GPU", c.a.samples_per_second_per_gpu, c.b.samples_per_second_per_gpu, plain);
  }
  text += row("MFU", c.a.mfu, c.b.mfu, [](double v) { return percent(v); });
  const auto peak = [](const Report& r) {
    Bytes most = 0;
    for (const RoleMemory& role : r.memory) most = std::max(most, role.peak);
    return static_cast<double>(most);
  };
  text += row("memory a GPU", peak(c.a), peak(c.b),
              [](double v) { return human_gib(static_cast<Bytes>(v)); });

  text += fmt::format("\n{:<32}{:>16}{:>16}{:>14}\n", "by cause, ms", "A", "B", "B - A");
  for (const CauseDifference& d : c.causes) {
    text += fmt::format("  {:<30}{:>16}{:>16}{:>14}\n", d.cause, ms(d.a), ms(d.b),
                        signed_ms(d.b - d.a));
  }
  text += fmt::format("  {:<30}{:>16}{:>16}{:>14}\n", "in all", ms(c.a.step_time),
                      ms(c.b.step_time), signed_ms(c.b.step_time - c.a.step_time));

  if (c.aspects.empty()) return text + "\nnothing that the step depends on differs\n";
  text += fmt::format("\n{:<48}{:>16}{:>14}\n", "by aspect, exchanged one after the other",
                      "step, ms", "by it, ms");
  for (const AspectDifference& d : c.aspects) {
    text += fmt::format("  {:<46}{:>16}{:>14}\n", d.aspect, ms(d.step), signed_ms(d.difference));
    if (!d.changes.empty()) text += folded("      ", d.changes);
  }
  text += fmt::format("  {:<46}{:>16}{:>14}\n", "in all", ms(c.b.step_time),
                      signed_ms(c.b.step_time - c.a.step_time));
  return text;
}

}  // namespace stepcast
