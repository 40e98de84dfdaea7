#include "sim/plan/failures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.hpp"

namespace stepcast {
namespace {

constexpr Seconds never = std::numeric_limits<Seconds>::infinity();
constexpr double hopeless = 1000;  // times the work
constexpr std::int64_t most_failures = 2'000'000;

class Job {
 public:
  Job(Seconds work, Seconds interval, const CheckpointCost& cost, const FailureRates& rates,
      std::uint64_t seed)
      : work_(work), interval_(interval), cost_(cost), rates_(rates), random_(seed) {}

  JobRun run() {
    failure_ = next_failure();
    while (!given_up()) {
      const Seconds trains = std::min(interval_, work_ - done_);
      if (!pass(trains)) continue;
      done_ += trains;
      if (done_ >= work_ * (1 - 1e-12)) break;
      if (!pass(cost_.stall)) continue;
      written_ = now_ + cost_.lag;  // no write is under way: an interval is not shorter than a lag
      snapshot_ = done_;
    }
    run_.wall = given_up() ? never : now_;
    return run_;
  }

 private:
  bool given_up() const { return now_ > hopeless * work_ || run_.failures > most_failures; }

  Seconds next_failure() {
    if (rates_.mtbf <= 0) return never;
    constexpr double to_unit = 1.0 / 9007199254740992.0;  // 2^-53
    const double u = static_cast<double>(random_() >> 11U) * to_unit;
    return now_ - rates_.mtbf * std::log1p(-u);
  }

  // Time passes; false when the job failed meanwhile, and has started again from what was saved.
  bool pass(Seconds length) {
    const Seconds until = now_ + length;
    if (written_ <= std::min(until, failure_)) {
      saved_ = snapshot_;
      written_ = never;
      ++run_.checkpoints;
    }
    if (failure_ >= until) {
      now_ = until;
      return true;
    }
    do {  // a restart may fail too
      now_ = failure_;
      ++run_.failures;
      failure_ = next_failure();
    } while (failure_ < now_ + rates_.restart && !given_up());
    now_ += rates_.restart;
    written_ = never;
    done_ = saved_;
    return false;
  }

  const Seconds work_, interval_;
  const CheckpointCost& cost_;
  const FailureRates& rates_;
  std::mt19937_64 random_;
  JobRun run_;
  Seconds now_ = 0, failure_ = never;
  Seconds done_ = 0, saved_ = 0;  // of the work
  Seconds snapshot_ = 0;          // of the checkpoint that is being written
  Seconds written_ = never;       // and when it will be
};

}  // namespace

JobRun run_job(Seconds work, Seconds interval, const CheckpointCost& cost,
               const FailureRates& rates, std::uint64_t seed) {
  STEPCAST_ASSERT(work > 0 && interval > 0 && interval >= cost.lag, "one write at a time");
  return Job(work, interval, cost, rates, seed).run();
}

JobRuns run_jobs(int runs, Seconds work, Seconds interval, const CheckpointCost& cost,
                 const FailureRates& rates, std::uint64_t seed) {
  JobRuns result;
  std::vector<Seconds> walls;
  double failures = 0;
  for (int i = 0; i < runs; ++i) {
    const JobRun run = run_job(work, interval, cost, rates, seed + static_cast<std::uint64_t>(i));
    if (run.wall == never) return {};
    walls.push_back(run.wall);
    failures += static_cast<double>(run.failures);
  }
  if (walls.empty()) return result;
  std::sort(walls.begin(), walls.end());
  for (const Seconds wall : walls) result.mean += wall;
  const auto count = static_cast<double>(walls.size());
  const auto at = [&](double part) {
    return walls[static_cast<std::size_t>(part * (count - 1) + 0.5)];
  };
  result.runs = runs;
  result.mean /= count;
  result.low = at(0.1);
  result.high = at(0.9);
  result.failures = failures / count;
  return result;
}

}  // namespace stepcast
