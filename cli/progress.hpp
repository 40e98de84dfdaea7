#pragma once
// How far long work has come, on stderr: on a terminal one line that moves, elsewhere a line every
// ten seconds and none for what is done before.

#include <chrono>
#include <cstddef>
#include <string>

namespace stepcast::cli {

class Progress {
 public:
  Progress(std::size_t all, std::string what);  // "points"
  ~Progress();                                  // clears the line that moves
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void at(std::size_t done);
  // A line of its own, above the one that moves.
  void say(const std::string& text);

 private:
  std::string line(std::size_t done) const;

  std::size_t all_;
  std::string what_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begun_, said_;
};

// "4,210 of 10,000 points, 512 a second, 11 s left"; no rate within the first half second.
std::string progress_words(std::size_t done, std::size_t all, const std::string& what,
                           double seconds);

}  // namespace stepcast::cli
