// What ranks tell each other besides tensors: questions, answers, failures; and what is made of the
// answers, who is missing.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/cpu/peers_line.hpp"

namespace stepcast::runtime {
namespace {

constexpr Seconds last_patience = 0.25;  // when mpirun ends us: it will not wait long

}  // namespace

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

}  // namespace stepcast::runtime
