#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "sim/report/format.hpp"

namespace stepcast::cli {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

std::string long_time(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 6000) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

std::string progress_words(std::size_t done, std::size_t all, const std::string& what,
                           double seconds) {
  std::string text = fmt::format("{} of {} {}", grouped(static_cast<double>(done)),
                                 grouped(static_cast<double>(all)), what);
  if (seconds < 0.5 || done == 0) return text;
  const double rate = static_cast<double>(done) / seconds;
  text += rate >= 10 ? fmt::format(", {} a second", grouped(rate))
                     : fmt::format(", {:.1f} a second", rate);
  if (done < all)
    text += fmt::format(", {} left", long_time(static_cast<double>(all - done) / rate));
  return text;
}

Progress::Progress(std::size_t all, std::string what)
    : all_(all),
      what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) == 1),
      begun_(Clock::now()),
      said_(begun_) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::at(std::size_t done) {
  if (since(said_) < (terminal_ ? 0.2 : 10)) return;
  said_ = Clock::now();
  const std::string text = progress_words(done, all_, what_, since(begun_));
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    shown_ = true;
  } else {
    std::fprintf(stderr, "stepcast: %s\n", text.c_str());
  }
  std::fflush(stderr);
}

void Progress::say(const std::string& text) {
  std::fprintf(stderr, "%sstepcast: %s\n", shown_ ? "\r\033[K" : "", text.c_str());
}

}  // namespace stepcast::cli
