#include "runtime/cpu/executor.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "runtime/cpu/rank.hpp"

namespace stepcast::runtime {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<int> programs_of(const Schedule& schedule, int steps) {
  STEPCAST_ASSERT(!schedule.roles.empty() && steps >= 1, "a run has a role and a step");
  const int last = static_cast<int>(schedule.roles.front().steps.size()) - 1;
  std::vector<int> programs(static_cast<std::size_t>(steps));
  for (int i = 0; i < steps; ++i) programs[static_cast<std::size_t>(i)] = std::min(i, last);
  return programs;
}

std::vector<int> role_of_ranks(const Schedule& schedule) {
  std::vector<int> roles(static_cast<std::size_t>(schedule.mesh.world_size()), -1);
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    const Role& role = schedule.roles[r];
    for (int i = 0; i < role.rank_count; ++i) {
      roles.at(static_cast<std::size_t>(role.rank(i))) = static_cast<int>(r);
    }
  }
  for (const int role : roles) STEPCAST_ASSERT(role >= 0, "every rank has a role");
  return roles;
}

// The first failure of a run, with its type.
class FirstError {
 public:
  void keep(std::exception_ptr error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

// The life of a rank's thread.
void live(Rank& rank, int number, const Run& run, Seconds watchdog) {
  while (!rank.done()) {
    if (run.hall.failed()) return;
    const int seen = run.hall.bell(number).count();
    if (rank.advance()) {
      run.hall.progress(run.now());
      continue;
    }
    if (rank.done()) break;
    Seconds until = run.hall.last_progress() + watchdog;
    if (const auto next = rank.next_end()) {
      until = *next;
      run.hall.progress(until);
    } else if (run.now() >= until) {
      run.hall.fail(run.hall.who_is_missing());
      return;
    } else {
      rank.say_where_it_stands();
    }
    run.hall.bell(number).sleep(seen, run.began + std::chrono::duration_cast<Clock::duration>(
                                                      std::chrono::duration<double>(until)));
  }
  rank.say_where_it_stands();
}

void on_threads(std::vector<std::unique_ptr<Rank>>& ranks, const Run& run, Seconds watchdog,
                FirstError& error) {
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        live(*ranks[r], static_cast<int>(r), run, watchdog);
      } catch (...) {
        error.keep(std::current_exception());
        run.hall.fail("another rank failed");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// All ranks in this thread: a rank that may go on is drawn, again and again.
void in_turn(std::vector<std::unique_ptr<Rank>>& ranks, const Run& run, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::size_t> order(ranks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (;;) {
    std::shuffle(order.begin(), order.end(), random);
    bool went = false;
    for (const std::size_t r : order) {
      for (auto turns = 1 + random() % 32; turns > 0 && ranks[r]->advance(); --turns) went = true;
    }
    if (went) continue;
    const bool over =
        std::all_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank->done(); });
    for (const auto& rank : ranks) rank->say_where_it_stands();
    if (!over) run.hall.fail(run.hall.who_is_missing());
    return;
  }
}

// A step ends with its last span; the next one begins there.
void add_steps(Timeline& timeline, const Schedule& schedule, const std::vector<int>& programs) {
  std::vector<Seconds> ends(programs.size(), 0);
  for (const Span& span : timeline.spans) {
    Seconds& end = ends[static_cast<std::size_t>(span.step)];
    end = std::max(end, span.end);
  }
  Seconds begin = 0;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const auto program = static_cast<std::size_t>(programs[i]);
    const Seconds end = std::max(begin, ends[i]);
    timeline.steps.push_back({schedule.roles[0].steps[program].name, programs[i], begin, end});
    begin = end;
  }
}

}  // namespace

Execution execute(const Schedule& schedule, Work& work, const ExecuteOptions& options) {
  Hall hall(schedule);
  Run run{schedule, work, hall, programs_of(schedule, options.steps), {}, Clock::now()};
  for (const Role& role : schedule.roles) {
    std::vector<Queues> queues;
    for (const StepProgram& program : role.steps) queues.emplace_back(schedule, program);
    run.queues.push_back(std::move(queues));
  }
  const std::vector<int> roles = role_of_ranks(schedule);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::size_t r = 0; r < roles.size(); ++r) {
    const int rank = static_cast<int>(r);
    const bool first = schedule.roles[static_cast<std::size_t>(roles[r])].rank(0) == rank;
    ranks.push_back(std::make_unique<Rank>(run, rank, roles[r], options.seed, first));
    ranks.back()->start();
  }
  run.began = Clock::now();
  FirstError error;
  if (options.threads) {
    on_threads(ranks, run, options.watchdog, error);
  } else {
    in_turn(ranks, run, options.seed);
  }
  error.rethrow();
  if (hall.failed()) throw Hang(hall.failure());

  Execution result;
  result.timeline.engine = "cpu threads";
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r]->end();
    result.peak.push_back(ranks[r]->memory().peak());
    auto& spans = result.timeline.spans;
    spans.insert(spans.end(), ranks[r]->spans().begin(), ranks[r]->spans().end());
    auto& samples = result.timeline.memory;
    samples.insert(samples.end(), ranks[r]->samples().begin(), ranks[r]->samples().end());
  }
  const auto by_place = [](const auto& a, const auto& b) {
    return std::tie(a.step, a.role, a.op) < std::tie(b.step, b.role, b.op);
  };
  std::sort(result.timeline.spans.begin(), result.timeline.spans.end(), by_place);
  std::stable_sort(result.timeline.memory.begin(), result.timeline.memory.end(), by_place);
  add_steps(result.timeline, schedule, run.programs);
  return result;
}

}  // namespace stepcast::runtime
