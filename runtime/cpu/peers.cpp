// Collectives: the communicators' threads, and the end of a run. Letters: peers_letters.cpp.

#include "runtime/cpu/peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "runtime/cpu/peers_line.hpp"

namespace stepcast::runtime {
namespace {

// The run has failed elsewhere: this thread has nothing more to do.
struct Ended {};

}  // namespace

Peers::Peers(const Schedule& schedule, Wire& wire, Seconds watchdog,
             const std::atomic<bool>* end_now)
    : Transport(schedule), wire_(wire), watchdog_(watchdog), end_now_(end_now) {
  for (std::size_t c = 0; c < schedule.communicators.size(); ++c) {
    auto line = std::make_unique<Line>();
    line->name = schedule.communicators[c].name.str();
    line->ranks = ranks_of_group(schedule.mesh, schedule.communicators[c].axis, wire.rank());
    line->me = static_cast<std::size_t>(
        std::find(line->ranks.begin(), line->ranks.end(), wire.rank()) - line->ranks.begin());
    line->channel = first_of_communicators + 2 * static_cast<int>(c);
    line->ring = std::make_unique<WireRing>(
        wire, line->channel + 1, line->ranks, [this](int turn) { pause(turn); },
        [this] { progress(now()); });
    lines_.push_back(std::move(line));
  }
}

void Peers::start() {
  wire_.meet();
  start_clock();
  for (const auto& line : lines_) line->thread = std::thread([&] { work_on(*line); });
  control_ = std::thread([&] { control_loop(); });
}

Peers::~Peers() {
  stop_.store(true);
  for (const auto& line : lines_) {
    { const std::lock_guard<std::mutex> lock(line->mutex); }
    line->filled.notify_all();
    if (line->thread.joinable()) line->thread.join();
  }
  if (control_.joinable()) control_.join();
  // A wire may still read what it could not deliver; the process ends soon.
  if (!letters_.empty()) new std::deque<Letter>(std::move(letters_));
}

// ---- Collectives --------------------------------------------------------------------------------

std::shared_ptr<Attendance> Peers::enter(CommIndex comm, int, std::int64_t, const Collective& what,
                                         Operands mine, const Standing& standing, Seconds) {
  Line& line = *lines_[static_cast<std::size_t>(comm)];
  auto part = std::make_shared<Part>(what, mine, standing);
  part->entered_.resize(line.ranks.size(), false);
  part->entered_[line.me] = true;
  {
    const std::lock_guard<std::mutex> lock(line.mutex);
    line.queue.push_back(part);
  }
  line.filled.notify_all();
  return part;
}

void Peers::work_on(Line& line) {
  wake_on_time();
  for (;;) {
    std::shared_ptr<Part> part;
    {
      std::unique_lock<std::mutex> lock(line.mutex);
      line.filled.wait(lock, [&] { return stop_.load() || !line.queue.empty(); });
      if (stop_.load()) return;
      part = line.queue.front();
    }
    try {
      carry_out(line, *part);
    } catch (const Ended&) {
      return;
    } catch (const std::exception& error) {
      fail(error.what());
      return;
    }
    const std::lock_guard<std::mutex> lock(line.mutex);
    line.queue.pop_front();
  }
}

void Peers::carry_out(Line& line, Part& part) {
  const auto* words = reinterpret_cast<const std::byte*>(&part.words_);
  std::vector<Arrival>& theirs = part.theirs_;
  theirs.resize(line.ranks.size());
  std::vector<std::pair<std::size_t, Wire::Request>> coming;
  std::vector<Wire::Request> going;
  for (std::size_t i = 0; i < line.ranks.size(); ++i) {
    if (i == line.me) continue;
    auto* to = reinterpret_cast<std::byte*>(&theirs[i]);
    coming.emplace_back(i, wire_.receive(line.ranks[i], line.channel, to, sizeof(Arrival)));
    going.push_back(wire_.send(line.ranks[i], line.channel, words, sizeof(Arrival)));
  }
  for (int turn = 0; !coming.empty(); ++turn) {
    const auto before = coming.size();
    for (std::size_t k = coming.size(); k-- > 0;) {
      if (!wire_.done(coming[k].second)) continue;
      const std::size_t i = coming[k].first;
      coming.erase(coming.begin() + static_cast<std::ptrdiff_t>(k));
      const Standing there{theirs[i].role, theirs[i].step, theirs[i].program, theirs[i].op};
      if (!(collective(theirs[i]) == part.what_)) {
        throw std::runtime_error(fmt::format(
            "ranks disagree on communicator {}: rank {} entered {} ({}), rank {} {} ({})",
            line.name, line.ranks[i], in_words(collective(theirs[i])), name(there), wire_.rank(),
            in_words(part.what_), name(part.standing_)));
      }
      const std::lock_guard<std::mutex> lock(mutex_);
      part.entered_[i] = true;
    }
    if (coming.size() == before) {
      pause(turn);
    } else {
      progress(now());
    }
  }
  part.began_ = now();
  part.stage_.store(Attendance::Stage::under_way, std::memory_order_release);
  bell(wire_.rank()).ring();
  line.ring->carry_out(part.what_, part.mine_);
  for (const Wire::Request request : going) line.ring->await(request);
  part.ended_ = now();
  progress(part.ended_);
  part.stage_.store(Attendance::Stage::over, std::memory_order_release);
  bell(wire_.rank()).ring();
}

void Peers::pause(int turn) {
  if (failed() || stop_.load()) throw Ended{};
  const auto wait = turn < 8 ? 30 : turn < 100 ? 100 : 300;
  std::this_thread::sleep_for(std::chrono::microseconds(wait));
}

// ---- The end ------------------------------------------------------------------------------------

// Waits for the others at the end of the run, who may take long, but must be there.
bool Peers::watched_pause(int turn) {
  if (failed()) return false;
  if (now() > asked_last_ + watchdog_) {
    ask_everybody(std::min(patience, watchdog_), false);
    std::string why;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (static_cast<int>(answers_.size()) < wire_.size() - 1) why = "all is done here";
    }
    if (!why.empty()) {
      fail(why + ": " + described());
      return false;
    }
    asked_last_ = now();
  }
  std::this_thread::sleep_for(std::chrono::microseconds(turn < 100 ? 100 : 1000));
  return true;
}

bool Peers::settle(const std::vector<std::byte>& mine, std::vector<std::vector<std::byte>>& all) {
  asked_last_ = now();
  const auto await = [&](Wire::Request request) {
    for (int turn = 0; !wire_.done(request); ++turn) {
      if (!watched_pause(turn)) return false;
    }
    return true;
  };
  std::byte released{};
  if (wire_.rank() != 0) {
    return await(wire_.send(0, gather, mine.data(), mine.size())) &&
           await(wire_.receive(0, gather, &released, 1));
  }
  all.assign(static_cast<std::size_t>(wire_.size()), {});
  all[0] = mine;
  for (int come = 1, turn = 0; come < wire_.size(); ++turn) {
    int from = 0;
    std::size_t bytes = 0;
    if (!wire_.next(gather, from, bytes)) {
      if (!watched_pause(turn)) return false;
      continue;
    }
    std::vector<std::byte>& theirs = all[static_cast<std::size_t>(from)];
    theirs.resize(bytes);
    if (!await(wire_.receive(from, gather, theirs.data(), bytes))) return false;
    ++come;
    turn = 0;
  }
  for (int r = 1; r < wire_.size(); ++r) {
    if (!await(wire_.send(r, gather, &released, 1))) return false;
  }
  return true;
}

}  // namespace stepcast::runtime
