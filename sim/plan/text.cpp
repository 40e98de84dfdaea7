// The page of `stepcast plan`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/number_text.hpp"
#include "sim/plan/plan.hpp"
#include "sim/report/format.hpp"

namespace stepcast {
namespace {

constexpr double day = 86400;

std::string amount_words(double amount, const char* unit) {
  return fmt::format("{} {}", human_count(amount), unit);
}

// Three digits: 0.512, 12.3, 1,234.
std::string short_number(double value) {
  const double size = std::abs(value);
  return size < 0.9995  ? fmt::format("{:.3f}", value)
         : size < 9.995 ? fmt::format("{:.2f}", value)
         : size < 99.95 ? fmt::format("{:.1f}", value)
                        : grouped(value);
}

// An amount in the unit that suits `like`: "447" and "B" for 447e9.
std::pair<std::string, std::string> scaled(double amount, double like) {
  constexpr std::pair<double, const char*> units[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}};
  for (const auto& [size, name] : units) {
    if (like >= size) return {short_number(amount / size), name};
  }
  return {grouped(amount), ""};
}

std::string money(const std::optional<double>& usd) { return usd ? grouped(*usd) : "no price"; }

std::string energy(const std::optional<double>& kwh) {
  return kwh ? short_number(*kwh / 1000) : "unknown";
}

std::string counted(std::int64_t count, const char* one) {
  return fmt::format("{} {}{}", grouped(static_cast<double>(count)), one, count == 1 ? "" : "s");
}

// Below a day hours, minutes or seconds: "3.01 days", "12.3 hours".
std::string duration(double days) {
  const double size = std::abs(days);
  if (size >= 0.9995) return short_number(days) + " days";
  if (size * 24 >= 0.9995) return short_number(days * 24) + " hours";
  if (size * 1440 >= 0.9995) return short_number(days * 1440) + " minutes";
  return short_number(days * day) + " seconds";
}

// The same for a column, by its best plan.
std::pair<double, const char*> table_unit(double days) {
  if (days >= 0.9995) return {1, "days"};
  return days * 24 >= 0.9995 ? std::pair{24.0, "hours"} : std::pair{1440.0, "minutes"};
}

// Without a sign where nothing that is shown changes.
std::string cost_change(double usd) {
  const double size = std::abs(usd);
  if (size < 0.005) return "the same cost";
  return fmt::format("{} USD {}", size < 9.995 ? fmt::format("{:.2f}", size) : grouped(size),
                     usd >= 0 ? "more" : "less");
}

// A plan that keeps the deadline in the middle of its range may miss it at the slow end.
std::string risk(const Plan& plan, const PlanPoint& p) {
  if (!plan.asked.amount || !plan.asked.deadline_days) return "";
  const double deadline = *plan.asked.deadline_days;
  if (deadline < p.days_low || deadline > p.days_high) return "";
  return fmt::format("the deadline of {} days is at risk: 8 in 10 take {} to {} days",
                     number_text(deadline), short_number(p.days_low), short_number(p.days_high));
}

std::string span(double low, double high) {
  return fmt::format("{}-{}", short_number(low), short_number(high));
}

std::string batch_words(const Choice& c) {
  return c.accumulation > 1 ? fmt::format("{} x {} accumulated", c.micro_batch, c.accumulation)
                            : fmt::format("{}", c.micro_batch);
}

std::string next_words(const Plan& plan, const PlanPoint& p) {
  const char* unit = plan.unit();
  const NextNode& n = p.next;
  if (n.nodes == 0) return n.why_not.empty() ? "" : "no further node: " + n.why_not;
  std::string text =
      fmt::format("a further node: {}{} {}/s, {} of its share", n.rate_gain < 0 ? "-" : "+",
                  human_count(std::abs(n.rate_gain)), unit, percent(n.share));
  if (!plan.asked.amount) {
    return text + fmt::format(", {} {} {} in all", human_count(std::abs(n.amount_added)), unit,
                              n.amount_added < 0 ? "less" : "more");
  }
  text +=
      fmt::format(", {} {}", duration(std::abs(n.days_saved)), n.days_saved >= 0 ? "less" : "more");
  if (n.cost_added) text += ", " + cost_change(*n.cost_added);
  return text;
}

std::string binds(const Shares& shares) {
  const Limit first = largest(shares), second = largest(shares, first);
  const auto share = [&](Limit l) { return shares[static_cast<std::size_t>(l)]; };
  std::string text = fmt::format("{} binds ({}", to_string(first), percent(share(first)));
  if (share(second) >= 0.005) {
    text += fmt::format("; then {} {}", to_string(second), percent(share(second)));
  }
  return text + ")";
}

class Page {
 public:
  explicit Page(const Plan& plan)
      : p_(plan), unit_(table_unit(plan.points.empty() ? 1 : plan.points.front().days)) {}

  std::string run() {
    head();
    ranked();
    front();
    best();
    left_out();
    text_ += "\nassumptions\n";
    for (const std::string& assumption : p_.assumptions) text_ += folded("  - ", assumption);
    return text_;
  }

 private:
  const PlanPoint& point(int i) const { return p_.points[static_cast<std::size_t>(i)]; }

  void head() {
    const PlanQuestion& q = p_.asked;
    std::string goal = q.amount ? amount_words(*q.amount, p_.unit()) : "as much as possible";
    if (q.deadline_days) goal += fmt::format(", within {:g} days", *q.deadline_days);
    if (q.budget_usd) goal += fmt::format(", for at most {} USD", grouped(*q.budget_usd));
    text_ +=
        folded("", fmt::format("{}: {} parameters{}; {}", p_.model,
                               human_count(static_cast<double>(p_.parameters)),
                               p_.images ? ""
                                         : fmt::format(", {} tokens a sequence",
                                                       grouped(static_cast<double>(p_.seq_len))),
                               goal));
    text_ += folded(
        "", fmt::format("{}, up to {}{}: {}, {} screened, {} simulated; {} of memory stays free",
                        counted(static_cast<std::int64_t>(p_.machines.size()), "machine"),
                        counted(q.scenario.nodes.value_or(q.most_nodes), "node"),
                        q.most_gpus > 0 ? " and " + counted(q.most_gpus, "GPU") : "",
                        counted(p_.counts.configurations, "configuration"),
                        counted(p_.counts.screened, "step"),
                        grouped(static_cast<double>(p_.counts.confirmed)), percent(q.headroom)));
  }

  void columns(const char* title) {
    text_ += fmt::format("\n{}\n", title);
    text_ += fmt::format("{:>4} {:<24}{:>5}{:>7}{:>10}{:>9}{:>9}{:>14}{:>12}{:>8}\n", "", "machine",
                         "nodes", "GPUs", std::string(p_.unit()) + "/s", "MFU",
                         p_.asked.amount ? unit_.second : "amount", "8 in 10", "USD", "MWh");
  }

  void row(int number, const PlanPoint& p) {
    const bool days = p_.asked.amount.has_value();
    std::string middle = short_number(p.days * unit_.first);
    std::string range = span(p.days_low * unit_.first, p.days_high * unit_.first);
    if (!days) {  // the faster step trains more
      const double k = p.amount * p.trial.step;
      const auto [number_of, unit] = scaled(p.amount, p.amount);
      middle = number_of + " " + unit;
      range =
          scaled(k / p.trial.high, p.amount).first + "-" + scaled(k / p.trial.low, p.amount).first;
    }
    text_ += fmt::format("{:>3}{} {}{:>5}{:>7}{:>10}{:>9}{:>9}{:>14}{:>12}{:>8}\n", number,
                         p.meets ? ' ' : '!', padded(p.machine, 24), p.trial.choice.nodes,
                         grouped(p.gpus), human_count(p.rate), percent(p.trial.mfu), middle, range,
                         money(p.cost), energy(p.kwh));
  }

  void ranked() {
    const std::string by = p_.rank == Rank::amount ? "by how much is trained"
                           : p_.rank == Rank::cost ? "by cost"
                                                   : "by days";
    columns(("each machine's best, " + by).c_str());
    std::vector<int> order;
    for (const PlannedMachine& m : p_.machines) {
      if (m.best >= 0) order.push_back(m.best);
    }
    std::sort(order.begin(), order.end());
    int number = 0;
    bool missed = false;
    for (const int i : order) {
      const PlanPoint& p = point(i);
      missed = missed || !p.meets;
      row(++number, p);
      std::string words =
          fmt::format("{}, micro-batch {}, checkpointing {}{}; {} of memory free; {}", p.strategy,
                      batch_words(p.trial.choice), checkpointing_name(p.trial.choice.checkpointing),
                      p.trial.choice.expandable ? ", expandable segments" : "", percent(p.headroom),
                      binds(p.trial.shares));
      const std::string risky = risk(p_, p);
      if (!risky.empty()) words += "; " + risky;
      const std::string next = next_words(p_, p);
      if (!next.empty()) words += "; " + next;
      text_ += folded("       ", words);
    }
    if (order.empty()) text_ += "  none fits\n";
    if (missed) {
      text_ += p_.asked.budget_usd ? "  ! misses the deadline or the budget\n"
                                   : "  ! misses the deadline\n";
    }
  }

  void front() {
    if (p_.front.empty()) return;
    columns(p_.asked.amount ? "Pareto front: nothing is both faster and cheaper"
                            : "Pareto front: nothing trains more for less");
    int number = 0;
    for (const int i : p_.front) row(++number, point(i));
  }

  void best() {
    if (p_.points.empty()) return;
    const PlanPoint& p = p_.points.front();
    const Choice& c = p.trial.choice;
    text_ += "\nthe best plan\n";
    text_ += folded(
        "  ", fmt::format("{} x {} ({} GPUs, {}): {} a step, {} steps", c.nodes, p.machine_name,
                          grouped(p.gpus), p.gpu, human_seconds(p.trial.step),
                          grouped(std::ceil(p.amount / p.amount_a_step))));
    batch(p);
    checkpoints(p);
    text_ += "  " + p.command + "\n";
  }

  void batch(const PlanPoint& p) {
    const double samples = p.trial.samples;
    std::string words = fmt::format(
        "global batch: {} a GPU x {} GPUs{} = {} {}", p.trial.choice.micro_batch, grouped(p.gpus),
        p.trial.choice.accumulation > 1
            ? fmt::format(" x {} accumulated", p.trial.choice.accumulation)
            : "",
        grouped(samples), p_.images ? "images" : "sequences");
    if (!p_.images) words += fmt::format(", {} tokens", human_count(p.amount_a_step));
    if (p_.asked.tuned_batch_tokens) {
      const double k = p.amount_a_step / *p_.asked.tuned_batch_tokens;
      words += fmt::format(
          ". Against the {} tokens that the learning rate was found for it is x {:.3g}: the linear "
          "rule takes the rate x {:.3g}, the square-root rule x {:.3g}; which one holds is for a "
          "trial to say.",
          human_count(*p_.asked.tuned_batch_tokens), k, k, std::sqrt(k));
    } else {
      words +=
          ". Where that is k times the batch that a learning rate was found for, the linear "
          "rule takes the rate x k, the square-root rule x sqrt(k); neither is prescribed.";
    }
    text_ += folded("  ", words);
  }

  void checkpoints(const PlanPoint& p) {
    if (p_.asked.failures.none) return;
    const std::string fails =
        fmt::format("the job fails every {} on average", duration(p.rates.mtbf / day));
    if (p.days_without_failures * day < p.interval.interval) {
      text_ += folded("  ", fmt::format("{}; training takes {}, less than the {} that are best "
                                        "between two checkpoints: none is written on the way",
                                        fails, duration(p.days_without_failures),
                                        duration(p.interval.interval / day)));
    } else {
      const std::string without = duration(p.days_without_failures), with = duration(p.days);
      text_ += folded(
          "  ", fmt::format("{}; it is up {} of the time with a checkpoint every {} ({} steps): {}",
                            fails, percent(p.interval.goodput), human_seconds(p.interval.interval),
                            grouped(std::max(1.0, std::round(p.interval.interval / p.trial.step))),
                            without == with ? with + ", as without failures"
                                            : without + " become " + with));
    }
    if (p_.simulated) {
      const JobRuns& r = *p_.simulated;
      text_ += folded(
          "  ",
          r.runs == 0
              ? std::string("played out event by event it does not end")
              : fmt::format("played out event by event, {} from seed {}: {}, 8 in 10 between {} "
                            "and {}, {:.1f} failures",
                            counted(r.runs, "run"), p_.asked.failures.seed, duration(r.mean / day),
                            duration(r.low / day), duration(r.high / day), r.failures));
    }
    text_ += fmt::format("  {:<22}{:>11}{:>13}{:>11}{:>11}{:>11}{:>13}\n", "checkpoints", "stall",
                         "on storage", "every", "Young", "goodput", "host memory");
    for (const CheckpointWay& w : p_.ways) {
      text_ += fmt::format(
          "  {:<22}{:>11}{:>13}{:>11}{:>11}{:>11}{:>13}{}\n",
          fmt::format("{}, {}", to_string(w.writer), w.background ? "background" : "blocking"),
          human_seconds(w.cost.stall), human_seconds(w.cost.stall + w.cost.lag),
          human_seconds(w.plan.interval), human_seconds(w.plan.young),
          fmt::format("{:.2f} %", 100 * w.plan.goodput), human_bytes(w.cost.host_bytes),
          w.cost.fits_host ? "" : "  more than a host has");
    }
  }

  void left_out() {
    bool first = true;
    for (const PlannedMachine& m : p_.machines) {
      if (m.best >= 0) continue;
      if (first) text_ += "\nleft out\n";
      first = false;
      text_ += folded("  ", m.name + ": " + m.why_not);
    }
  }

  const Plan& p_;
  std::pair<double, const char*> unit_;  // of the tables' times: so many a day, and its name
  std::string text_;
};

}  // namespace

std::string to_text(const Plan& plan) { return Page(plan).run(); }

}  // namespace stepcast
