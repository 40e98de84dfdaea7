#include "sim/engines/simgrid_tasks.hpp"

#include <xbt/log.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <set>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "sim/engines/constraint.hpp"
#include "sim/engines/simgrid_flows.hpp"

namespace stepcast {
namespace {

// SimGrid installs its own handlers of signals and of terminate(); the program's stay.
class KeepHandlers {
 public:
  KeepHandlers() : terminate_(std::get_terminate()) {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], nullptr, &actions_[i]);
  }
  ~KeepHandlers() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &actions_[i], nullptr);
    std::set_terminate(terminate_);
  }
  KeepHandlers(const KeepHandlers&) = delete;
  KeepHandlers& operator=(const KeepHandlers&) = delete;

 private:
  static constexpr std::array<int, 7> signals{SIGINT,  SIGTERM, SIGSEGV, SIGBUS,
                                              SIGABRT, SIGFPE,  SIGUSR1};
  std::terminate_handler terminate_;
  std::array<struct sigaction, signals.size()> actions_{};
};

struct Network {
  const std::vector<MessageLink>* links = nullptr;
  const std::vector<MessageConnection>* connections = nullptr;
};
Network wanted_network;  // set before the simulator is made

// SimGrid is one per process: its engine, the pool of resources, and what runs on them.
class Simulator {
 public:
  Simulator();

  SimgridTasks::Listener* listener = nullptr;
  int running = 0;
  std::unique_ptr<SimgridFlows> network;

  void start(int id, Seconds solo, std::span<const Ask> asks) {
    STEPCAST_ASSERT(id >= 0 && id < SimgridTasks::max_tasks, "too many tasks at a time");
    const simgrid::s4u::ExecPtr task = simgrid::s4u::Exec::init();
    task->set_flops_amount(solo)->set_host(clocks_[at(id)]);
    tasks_[at(id)] = {this, id, task};
    task->set_data(&tasks_[at(id)]);
    sharing_.add(id, asks);
    ++running;
    task->start();
    look_again(id);
  }

  void hold(int number, std::span<const Ask> asks) {
    const int id = SimgridTasks::max_tasks + number;
    sharing_.add(id, asks);
    holds_.insert(number);
    look_again(id);
  }

  void let_go(int number) {
    if (holds_.erase(number) == 0) return;
    const int id = SimgridTasks::max_tasks + number;
    look_again(id);
    sharing_.remove(id);
  }
  void let_all_go() {
    while (!holds_.empty()) let_go(*holds_.begin());
  }

  void run() { engine_.run(); }

 private:
  struct Running {
    Simulator* simulator = nullptr;  // tells our tasks from any other activity of the process
    int id = 0;
    simgrid::s4u::ExecPtr task;
  };

  // SimGrid asks for the speed of a clock that changed: so do those of all that may share with the
  // task. Its own changed when it came.
  void look_again(int id) {
    for (const int other : sharing_.neighbours(id)) {
      if (other == id || other >= SimgridTasks::max_tasks || will_ask_[at(other)]) continue;
      will_ask_[at(other)] = true;
      simgrid::s4u::Host* clock = clocks_[at(other)];
      clock->set_pstate(clock->get_pstate() == 0 ? 1 : 0);
    }
  }

  void ended(Running& of) {
    --running;
    look_again(of.id);
    sharing_.remove(of.id);
    ended_.push_back(std::move(of.task));
    if (ended_.size() > 64) ended_.pop_front();
    if (listener != nullptr) listener->task_ended(of.id);
  }

  int argument_count_ = 2;
  std::array<char, 9> program_{"stepcast"};
  std::array<char, 27> quiet_{"--log=root.thresh:critical"};
  char* arguments_[3] = {program_.data(), quiet_.data(), nullptr};
  simgrid::s4u::Engine engine_;
  std::vector<simgrid::s4u::Host*> clocks_;  // by task id
  std::vector<bool> will_ask_;               // by task id: SimGrid, for its speed
  std::vector<Running> tasks_;               // by id; never grows, SimGrid keeps addresses
  Sharing sharing_;                          // of tasks by id, and of holds behind them
  std::set<int> holds_;
  std::deque<simgrid::s4u::ExecPtr> ended_;
};

Simulator::Simulator() : engine_(&argument_count_, arguments_), tasks_(SimgridTasks::max_tasks) {
  if (wanted_network.links != nullptr) SimgridFlows::configure();
  simgrid::s4u::NetZone* zone = simgrid::s4u::create_empty_zone("stepcast");
  will_ask_.resize(SimgridTasks::max_tasks);
  for (int i = 0; i < SimgridTasks::max_tasks; ++i) {
    // The frequencies stand above any capacity that is answered below: SimGrid's bound of a task by
    // the speed of its host must not come in.
    clocks_.push_back(
        zone->create_host("clock" + std::to_string(i), std::vector<double>{2.0, 3.0}));
    clocks_.back()->set_sharing_policy(simgrid::s4u::Host::SharingPolicy::NONLINEAR,
                                       [this, i](double, int) {
                                         will_ask_[at(i)] = false;
                                         return sharing_.speed(i);
                                       });
  }
  if (wanted_network.links != nullptr) {
    network =
        std::make_unique<SimgridFlows>(*wanted_network.links, *wanted_network.connections, zone);
  }
  zone->seal();
  simgrid::s4u::Activity::on_completion_cb([this](const simgrid::s4u::Activity& activity) {
    auto* of = activity.get_data<Running>();
    if (of != nullptr && of->simulator == this) ended(*of);
  });
}

// See "The clock goes on".
constexpr double first = 4096, worn = 6144, grain = 1.0 / 64;

double clock_now() { return simgrid::s4u::Engine::get_clock(); }

Simulator& simulator() {
  // Never destroyed: SimGrid's own statics may be gone before ours at exit.
  static Simulator& only = []() -> Simulator& {
    const KeepHandlers keep;
    return *new Simulator;
  }();
  return only;
}

}  // namespace

bool SimgridTasks::with_network(const std::vector<MessageLink>& links,
                                const std::vector<MessageConnection>& connections) {
  if (!SimgridFlows::possible()) return false;
  wanted_network = {&links, &connections};
  simulator();
  return true;
}

MessageCarrier& SimgridTasks::network() {
  STEPCAST_ASSERT(simulator().network != nullptr, "no network was asked for");
  return *simulator().network;
}

SimgridTasks::SimgridTasks(Listener& listener) : listener_(listener) {
  STEPCAST_ASSERT(simulator().listener == nullptr && simulator().running == 0,
                  "two fluid runs at a time in one process");
  simulator().listener = &listener_;
  const double begin = std::ceil(std::max(clock_now(), first) / grain) * grain;
  if (begin > clock_now()) {
    simgrid::kernel::timer::Timer::set(begin, [] {});
    simulator().run();
  }
  origin_ = clock_now();
}

SimgridTasks::~SimgridTasks() {
  silence();
  simulator().let_all_go();
}

void SimgridTasks::start(int id, Seconds solo, std::span<const Ask> asks) {
  simulator().start(id, solo, asks);
}

void SimgridTasks::hold(int hold, std::span<const Ask> asks) { simulator().hold(hold, asks); }

void SimgridTasks::let_go(int hold) { simulator().let_go(hold); }

void SimgridTasks::ring_at(Seconds time, std::int64_t id) {
  const double date = std::max(clock_now(), origin_ + time);
  simgrid::kernel::timer::Timer::set(date, [id] {
    if (simulator().listener != nullptr) simulator().listener->bell(id);
  });
}

void SimgridTasks::run() { simulator().run(); }

void SimgridTasks::silence() { simulator().listener = nullptr; }

Seconds SimgridTasks::now() const { return clock_now() - origin_; }

bool SimgridTasks::clock_is_worn() { return clock_now() >= worn; }

Seconds SimgridTasks::resolution() const {
  return 16 * std::numeric_limits<double>::epsilon() * clock_now();
}

}  // namespace stepcast
