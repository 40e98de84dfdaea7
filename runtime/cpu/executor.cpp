#include "runtime/cpu/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <tuple>
#include <type_traits>

#include "runtime/cpu/meeting.hpp"
#include "runtime/cpu/peers.hpp"
#include "runtime/cpu/rank.hpp"
#include "runtime/steps.hpp"

namespace stepcast::runtime {
namespace {

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

// The life of a rank.
void live(Rank& rank, int number, const Run& run, Seconds watchdog) {
  Transport& transport = run.transport;
  while (!rank.done()) {
    if (transport.failed()) return;
    const int seen = transport.bell(number).count();
    const Seconds before = run.now();
    if (rank.advance()) {
      transport.progress(run.now());
      continue;
    }
    if (rank.done()) break;
    rank.say_where_it_stands();
    Seconds until = transport.last_progress() + watchdog;
    if (const auto next = rank.next_end(before)) {
      until = *next;
      transport.progress(until);
    } else if (run.now() >= until) {
      const std::string why = transport.who_is_missing();
      if (why.empty()) continue;
      transport.fail(why);
      return;
    }
    transport.bell(number).sleep(seen, transport.at(until));
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
        run.transport.fail("another rank failed");
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
    if (!over) run.transport.fail(run.transport.who_is_missing());
    return;
  }
}

std::vector<std::vector<Queues>> queues_of(const Schedule& schedule) {
  std::vector<std::vector<Queues>> all;
  for (const Role& role : schedule.roles) {
    std::vector<Queues> queues;
    for (const StepProgram& program : role.steps) queues.emplace_back(schedule, program);
    all.push_back(std::move(queues));
  }
  return all;
}

bool first_of_its_role(const Schedule& schedule, int role, int rank) {
  return schedule.roles[static_cast<std::size_t>(role)].rank(0) == rank;
}

void sort_by_place(Timeline& timeline) {
  const auto by_place = [](const auto& a, const auto& b) {
    return std::tie(a.step, a.role, a.op) < std::tie(b.step, b.role, b.op);
  };
  std::sort(timeline.spans.begin(), timeline.spans.end(), by_place);
  std::stable_sort(timeline.memory.begin(), timeline.memory.end(), by_place);
}

// ---- What a rank tells rank 0 at the end

template <typename T>
void put(std::vector<std::byte>& to, const std::vector<T>& list) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::uint64_t count = list.size();
  const auto* head = reinterpret_cast<const std::byte*>(&count);
  to.insert(to.end(), head, head + sizeof count);
  const auto* body = reinterpret_cast<const std::byte*>(list.data());
  to.insert(to.end(), body, body + count * sizeof(T));
}

template <typename T>
std::vector<T> take(const std::vector<std::byte>& from, std::size_t& at) {
  std::uint64_t count = 0;
  std::memcpy(&count, from.data() + at, sizeof count);
  at += sizeof count;
  std::vector<T> list(count);
  if (count > 0) std::memcpy(list.data(), from.data() + at, count * sizeof(T));
  at += count * sizeof(T);
  return list;
}

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

Execution execute(const Schedule& schedule, Work& work, const ExecuteOptions& options) {
  Hall hall(schedule);
  Run run{schedule, work, hall, programs_of(schedule, options.steps), queues_of(schedule)};
  const std::vector<int> roles = role_of_ranks(schedule);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::size_t r = 0; r < roles.size(); ++r) {
    const int rank = static_cast<int>(r);
    ranks.push_back(std::make_unique<Rank>(run, rank, roles[r], options.seed,
                                           first_of_its_role(schedule, roles[r], rank)));
    ranks.back()->start();
  }
  hall.start();
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
  for (const auto& rank : ranks) {
    rank->end();
    result.peak.push_back(rank->memory().peak());
    append(result.timeline.spans, rank->spans());
    append(result.timeline.memory, rank->samples());
  }
  result.pools = ranks.front()->memory().pool_peaks();
  sort_by_place(result.timeline);
  add_steps(result.timeline, schedule, run.programs);
  return result;
}

Execution execute_alone(const Schedule& schedule, Work& work, Wire& wire,
                        const ExecuteOptions& options) {
  STEPCAST_ASSERT(wire.size() == schedule.mesh.world_size(), "a process for every rank");
  const int me = wire.rank();
  const int role = role_of_ranks(schedule)[static_cast<std::size_t>(me)];
  std::unique_ptr<Rank> rank;  // outlives the threads that read its tensors
  Peers peers(schedule, wire, options.watchdog, options.end_now);
  Run run{schedule, work, peers, programs_of(schedule, options.steps), queues_of(schedule)};
  rank = std::make_unique<Rank>(run, me, role, options.seed, first_of_its_role(schedule, role, me));
  rank->start();
  peers.start();
  try {
    live(*rank, me, run, options.watchdog);
  } catch (const std::exception& error) {
    peers.fail(fmt::format("rank {}: {}", me, error.what()));
    throw;
  }
  if (!peers.failed()) rank->end();

  std::vector<std::byte> mine;
  put(mine, rank->spans());
  put(mine, rank->samples());
  put(mine, std::vector<Bytes>{rank->memory().peak()});
  put(mine, work.result(me));
  std::vector<std::vector<std::byte>> all;
  if (peers.failed() || !peers.settle(mine, all)) throw Hang(peers.failure());

  Execution result;
  result.timeline.engine = std::string("cpu processes, ") + wire.name();
  for (const std::vector<std::byte>& theirs : all) {
    std::size_t at = 0;
    append(result.timeline.spans, take<Span>(theirs, at));
    append(result.timeline.memory, take<MemorySample>(theirs, at));
    append(result.peak, take<Bytes>(theirs, at));
    result.results.push_back(take<double>(theirs, at));
  }
  sort_by_place(result.timeline);
  if (me == 0) result.pools = rank->memory().pool_peaks();
  if (me == 0) add_steps(result.timeline, schedule, run.programs);
  return result;
}

}  // namespace stepcast::runtime
