#include "runtime/cpu/peers.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace stepcast::runtime {
namespace {

// The run has failed elsewhere: this thread has nothing more to do.
struct Ended {};

// What a rank says when it enters a collective.
struct Arrival {
  std::int32_t kind = 0, reduction = 0, dtype = 0, root = 0;
  std::int64_t elements = 0;
  std::int32_t role = 0, step = 0, program = 0, op = 0, unused[2] = {};
};

Arrival arrival(const Collective& c, const Standing& s) {
  return {static_cast<int>(c.kind),
          static_cast<int>(c.reduction),
          static_cast<int>(c.dtype),
          c.root,
          c.elements,
          s.role,
          s.step,
          s.program,
          s.op,
          {}};
}

Collective collective(const Arrival& a) {
  return {static_cast<CollectiveKind>(a.kind), static_cast<Reduction>(a.reduction),
          static_cast<Dtype>(a.dtype), a.elements, a.root};
}

// A thread's sleeps end on time, not up to 50 us later.
void wake_on_time() { prctl(PR_SET_TIMERSLACK, 1000UL); }

constexpr Seconds patience = 1.0;        // for answers, of a rank that is there
constexpr Seconds last_patience = 0.25;  // when mpirun ends us: it will not wait long

}  // namespace

class Peers::Part : public Attendance {
 public:
  Part(const Collective& what, Operands mine, const Standing& standing)
      : what_(what), mine_(mine), standing_(standing), words_(arrival(what, standing)) {}

  Stage stage() const override { return stage_.load(std::memory_order_acquire); }
  Seconds began() const override { return began_; }
  Seconds ended() const override { return ended_; }
  bool go_on() override { return false; }  // its communicator's thread does

  const Collective what_;
  const Operands mine_;
  const Standing standing_;
  std::vector<bool> entered_;  // by index in the group; under Peers::mutex_
  // Messages under way lie here, not on a stack that a failure unwinds.
  const Arrival words_;
  std::vector<Arrival> theirs_;
  Seconds began_ = 0, ended_ = 0;
  std::atomic<Stage> stage_{Stage::gathering};
};

struct Peers::Line {
  std::string name;
  std::vector<int> ranks;
  std::size_t me = 0;
  int channel = 0;  // arrivals; the next one is for tensors
  std::unique_ptr<WireRing> ring;
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<std::shared_ptr<Part>> queue;  // the front one is being worked on; under `mutex`
  std::thread thread;
};

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

// ---- Letters ------------------------------------------------------------------------------------

void Peers::control_loop() {
  wake_on_time();
  bool asked_to_end = false;
  while (!stop_.load()) {
    pump();
    if (end_now_ != nullptr && end_now_->load() && !asked_to_end && !failed()) {
      asked_to_end = true;
      ask_everybody(last_patience, true);
      fail("ended from outside while " + described());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  // What was said last leaves too: a failure.
  const Seconds until = now() + 0.2;
  while (now() < until) {
    pump();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (letters_.empty()) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Peers::post(int to, Word word, const std::string& text) {
  Letter letter;
  letter.to = to;
  letter.text.resize(1 + text.size());
  letter.text[0] = static_cast<std::byte>(word);
  std::memcpy(letter.text.data() + 1, text.data(), text.size());
  const std::lock_guard<std::mutex> lock(mutex_);
  letters_.push_back(std::move(letter));
}

void Peers::pump() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Letter& letter : letters_) {
      if (letter.request) continue;
      letter.request = wire_.send(letter.to, control, letter.text.data(), letter.text.size());
    }
    for (std::size_t i = letters_.size(); i-- > 0;) {
      if (wire_.done(*letters_[i].request)) {
        letters_.erase(letters_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }
  int from = 0;
  std::size_t bytes = 0;
  while (wire_.next(control, from, bytes)) {
    std::vector<std::byte> text(bytes);
    const Wire::Request request = wire_.receive(from, control, text.data(), bytes);
    while (!wire_.done(request)) std::this_thread::sleep_for(std::chrono::microseconds(50));
    read_letter(from, text);
  }
}

void Peers::read_letter(int from, const std::vector<std::byte>& letter) {
  if (letter.empty()) return;
  const std::string text(reinterpret_cast<const char*>(letter.data()) + 1, letter.size() - 1);
  switch (static_cast<Word>(letter[0])) {
    case Word::question: {
      std::string stands;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        stands = where_stands(wire_.rank());
      }
      post(from, Word::answer, fmt::format("{:.6f} {}", now() - last_progress(), stands));
      return;
    }
    case Word::answer: {
      std::size_t used = 0;
      const Seconds age = std::stod(text, &used);
      const std::lock_guard<std::mutex> lock(mutex_);
      answers_[from] = {age, text.substr(used + 1)};
      return;
    }
    case Word::failure: Transport::fail(text); return;
  }
}

void Peers::fail(const std::string& message) {
  if (failed()) return;
  Transport::fail(message);
  for (int r = 0; r < wire_.size(); ++r) {
    if (r != wire_.rank()) post(r, Word::failure, message);
  }
}

// ---- Who is missing -----------------------------------------------------------------------------

void Peers::ask_everybody(Seconds longest, bool from_control) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_.clear();
  }
  for (int r = 0; r < wire_.size(); ++r) {
    if (r != wire_.rank()) post(r, Word::question, "");
  }
  const Seconds until = now() + longest;
  while (now() < until) {
    if (from_control) pump();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (static_cast<int>(answers_.size()) == wire_.size() - 1) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::string Peers::who_is_missing() {
  ask_everybody(std::min(patience, watchdog_), false);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Seconds youngest = watchdog_;
    for (const auto& [rank, answer] : answers_) youngest = std::min(youngest, answer.age);
    if (static_cast<int>(answers_.size()) == wire_.size() - 1 && youngest < watchdog_) {
      progress(now() - youngest);
      return "";
    }
  }
  return described();
}

// The oldest collective that I am in, by the answers to the last question.
std::string Peers::described() {
  std::shared_ptr<Part> oldest;
  const Line* where = nullptr;
  for (const auto& line : lines_) {
    const std::lock_guard<std::mutex> lock(line->mutex);
    if (line->queue.empty()) continue;
    const std::shared_ptr<Part>& part = line->queue.front();
    if (oldest && oldest->standing_.step <= part->standing_.step) continue;
    oldest = part;
    where = line.get();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<int> silent;
  for (int r = 0; r < wire_.size(); ++r) {
    if (r != wire_.rank() && answers_.count(r) == 0) silent.push_back(r);
  }
  const auto silence = [&] {
    return list_of_ranks(silent) + (silent.size() == 1 ? " does not answer" : " do not answer");
  };
  if (!oldest) {
    return where_stands(wire_.rank()) + (silent.empty() ? "; all answer" : "; " + silence());
  }
  std::vector<int> missing, entered;
  for (std::size_t i = 0; i < where->ranks.size(); ++i) {
    (oldest->entered_[i] ? entered : missing).push_back(where->ranks[i]);
  }
  std::string text = fmt::format("{} on communicator {} ", name(oldest->standing_), where->name);
  if (missing.empty()) {
    text += silent.empty() ? "does not go on" : "waits for " + list_of_ranks(silent);
    text += ": all have entered, " + (silent.empty() ? "all answer" : silence());
    return text;
  }
  text += fmt::format("waits for {}: {} entered", list_of_ranks(missing), list_of_ranks(entered));
  for (std::size_t i = 0; i < missing.size() && i < 4; ++i) {
    const auto answer = answers_.find(missing[i]);
    if (answer != answers_.end()) text += "; " + answer->second.stands;
  }
  if (!silent.empty()) text += "; " + silence();
  return text;
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
