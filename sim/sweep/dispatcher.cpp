#include "sim/sweep/dispatcher.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "base/error.hpp"

namespace stepcast {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double batch_seconds = 0.1;
constexpr std::size_t largest_batch = 256;
constexpr int most_deaths = 2;

}  // namespace

Dispatcher::Dispatcher(WorkOut work_out, DispatchOptions options)
    : work_out_(std::move(work_out)), options_(std::move(options)) {
  STEPCAST_ASSERT(options_.jobs >= 1, "a sweep has a worker");
  for (int i = 0; i < options_.jobs; ++i) fork_worker();
}

Dispatcher::~Dispatcher() {
  for (Worker& worker : workers_) {
    if (worker.process >= 0 && !worker.in_hand.empty()) {
      ::kill(worker.process, SIGKILL);  // stopped early: nobody waits for what it is at
    } else if (worker.channel.open() && worker.greeted) {
      worker.channel.send(Writer().number(stop_word).done());
    }
    worker.channel.close();
    if (worker.process >= 0) ::waitpid(worker.process, nullptr, 0);
  }
}

int Dispatcher::workers() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.channel.open() && worker.greeted;
  }));
}

void Dispatcher::fork_worker() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    throw std::runtime_error(fmt::format("no socket for a worker: {}", std::strerror(errno)));
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(pair[0]);
    ::close(pair[1]);
    throw std::runtime_error(fmt::format("no process for a worker: {}", std::strerror(errno)));
  }
  if (child == 0) {
    // Goes when its parent goes, however that ends; and keeps no other worker's line open.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    ::close(pair[0]);
    for (Worker& other : workers_) other.channel.close();
    if (options_.door != nullptr) ::close(options_.door->socket());
    // Nothing of the parent's is ended here: no database is closed, no stream flushed.
    ::_exit(serve(Channel(pair[1]), work_out_) ? 0 : 1);
  }
  ::close(pair[1]);
  Worker& worker = workers_.emplace_back();
  worker.channel = Channel(pair[0]);
  worker.process = child;
}

std::size_t Dispatcher::batch_for(const Worker& worker) const {
  const auto at_work = static_cast<std::size_t>(workers());
  // Half of what each would get if all were given out now, so that nobody works alone at the end.
  const std::size_t fair = waiting_.size() / (2 * std::max<std::size_t>(1, at_work)) + 1;
  const double pace = worker.seconds_a_point;
  const auto wanted = pace > 0 ? static_cast<std::size_t>(batch_seconds / pace) + 1 : 1;
  return std::min({fair, wanted, largest_batch, waiting_.size()});
}

void Dispatcher::feed(Worker& worker) {
  if (waiting_.empty() || !worker.channel.open() || !worker.greeted) return;
  const std::size_t batch = batch_for(worker);
  if (worker.in_hand.size() > batch / 2) return;
  Writer message;
  message.number(work_word).text(engine_).number(static_cast<std::uint32_t>(batch));
  for (std::size_t i = 0; i < batch; ++i) {
    const std::size_t point = waiting_.front();
    waiting_.pop_front();
    message.number(static_cast<std::uint32_t>(point));
    if (worker.in_hand.empty()) worker.last = Clock::now();
    worker.in_hand.push_back(point);
  }
  worker.channel.send(message.done());  // a worker that is gone shows when it is read from
}

bool Dispatcher::handle(Worker& worker, const std::string& message, const Take& take) {
  if (!worker.greeted) {
    std::string why;
    worker.greeted = options_.door->greet(worker.channel, message, why);
    if (!why.empty() && options_.say) options_.say(why);
    return worker.greeted;
  }
  Reader reader(message);
  const std::size_t point = reader.number();
  const Result result = read_result(reader);
  const auto place = std::find(worker.in_hand.begin(), worker.in_hand.end(), point);
  if (!reader.good() || !reader.at_end() || place == worker.in_hand.end()) return false;
  worker.in_hand.erase(place);
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - worker.last).count();
  worker.last = now;
  worker.seconds_a_point =
      worker.seconds_a_point == 0 ? seconds : 0.9 * worker.seconds_a_point + 0.1 * seconds;
  --left_;
  take(point, result);
  return true;
}

void Dispatcher::take_from(Worker& worker, const Take& take) {
  std::vector<std::string> messages;
  bool there = worker.channel.take(messages);
  for (const std::string& message : messages) {
    if (handle(worker, message, take)) continue;
    there = false;
    break;
  }
  if (!there) bury(worker, take);
}

// What it had in hand is given out again.
void Dispatcher::bury(Worker& worker, const Take& take) {
  worker.channel.close();
  int status = 0;
  if (worker.process >= 0) {
    ::kill(worker.process, SIGKILL);  // it may have spoken nonsense, and live
    ::waitpid(worker.process, &status, 0);
  }
  const bool stopping = options_.stop != nullptr && options_.stop->load();
  if (!worker.in_hand.empty()) {
    const std::size_t first = worker.in_hand.front();
    const std::string how = worker.process < 0 ? "of another rank is gone"
                            : WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL
                                ? fmt::format("ended by signal {}", WTERMSIG(status))
                                : "was killed";
    if (++deaths_[first] >= most_deaths) {
      worker.in_hand.pop_front();
      --left_;
      take(first, failed(fmt::format("two workers ended at this point; the last one {}", how)));
    }
    if (options_.say && !stopping) {
      options_.say(fmt::format("a worker {}; its {} points are given out again", how,
                               worker.in_hand.size()));
    }
    waiting_.insert(waiting_.begin(), worker.in_hand.begin(), worker.in_hand.end());
    worker.in_hand.clear();
  }
  const bool ours = worker.process >= 0;
  worker.process = -1;
  if (ours && !stopping) fork_worker();
}

void Dispatcher::admit() {
  Channel channel = options_.door->accept();
  if (!channel.open()) return;
  Worker& worker = workers_.emplace_back();
  worker.channel = std::move(channel);
  worker.greeted = false;
}

bool Dispatcher::run(const std::vector<std::size_t>& order, const std::string& engine,
                     const Take& take, const std::function<void()>& pause) {
  engine_ = engine;
  waiting_.assign(order.begin(), order.end());
  left_ = order.size();
  const std::size_t most = order.empty() ? 0 : *std::max_element(order.begin(), order.end());
  deaths_.assign(most + 1, 0);
  auto paused = Clock::now();
  while (left_ > 0) {
    if (options_.stop != nullptr && options_.stop->load()) return false;
    for (Worker& worker : workers_) feed(worker);
    std::vector<pollfd> polled;
    std::vector<Worker*> of;
    for (Worker& worker : workers_) {
      if (!worker.channel.open()) continue;
      polled.push_back({worker.channel.socket(), POLLIN, 0});
      of.push_back(&worker);  // a deque: stays where it is
    }
    if (options_.door != nullptr) polled.push_back({options_.door->socket(), POLLIN, 0});
    const int ready = ::poll(polled.data(), polled.size(), 200);
    if (ready < 0 && errno != EINTR) {
      throw std::runtime_error(fmt::format("poll: {}", std::strerror(errno)));
    }
    for (std::size_t i = 0; ready > 0 && i < of.size(); ++i) {
      if (polled[i].revents != 0) take_from(*of[i], take);
    }
    if (options_.door != nullptr && ready > 0 && polled.back().revents != 0) admit();
    const auto now = Clock::now();
    if (ready <= 0 || left_ == 0 || now - paused > std::chrono::milliseconds(20)) {
      pause();
      paused = now;
    }
  }
  return true;
}

}  // namespace stepcast
