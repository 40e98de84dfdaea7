#include "sim/sweep/worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "sim/engines/simgrid_tasks.hpp"
#include "sim/forecast/evaluator.hpp"

namespace stepcast {
namespace {

enum class End { stopped = 0, owner_gone = 1, worn = 2 };

// Schedules are hundreds of kilobytes, made and dropped a thousand times a second: their pages are
// kept, not given back to the system and asked for again. A sixth of the time of a point.
void keep_pages() {
  mallopt(M_MMAP_THRESHOLD, 1 << 28);
  mallopt(M_TRIM_THRESHOLD, 1 << 28);
}

Result worked_out(const WorkOut& work_out, std::size_t point, const std::string& engine) {
  try {
    return work_out(point, engine);
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

End serve_until_worn(Channel& channel, const WorkOut& work_out) {
  while (const std::optional<std::string> message = channel.receive()) {
    Reader reader(*message);
    const std::uint32_t word = reader.number();
    if (word == stop_word) return End::stopped;
    const std::string engine = reader.text();
    const std::uint32_t count = reader.number();
    for (std::uint32_t i = 0; i < count && reader.good(); ++i) {
      const std::uint32_t point = reader.number();
      if (!reader.good()) return End::owner_gone;
      Writer answer;
      answer.number(point);
      write(answer, worked_out(work_out, point, engine));
      if (!channel.send(answer.done())) return End::owner_gone;
    }
    if (SimgridTasks::clock_is_worn()) return End::worn;
  }
  return End::owner_gone;
}

// What a worn process had read and not worked on goes to the next through a pipe.
void write_all(int pipe, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(pipe, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) done += static_cast<std::size_t>(n);
  }
}

std::string read_all(int pipe) {
  std::string bytes;
  char block[4096];
  for (;;) {
    const ssize_t n = ::read(pipe, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return bytes;
    bytes.append(block, static_cast<std::size_t>(n));
  }
}

// How a process that serves until it is worn ended; its rest of a message is put back.
End one_process(Channel& channel, const WorkOut& work_out) {
  int rest[2];
  if (::pipe2(rest, O_CLOEXEC) != 0) {
    throw std::runtime_error(fmt::format("no pipe for a worker: {}", std::strerror(errno)));
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    throw std::runtime_error(fmt::format("no process for a worker: {}", std::strerror(errno)));
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(static_cast<int>(End::owner_gone));
    ::close(rest[0]);
    const End end = serve_until_worn(channel, work_out);
    write_all(rest[1], channel.take_back());
    ::_exit(static_cast<int>(end));
  }
  ::close(rest[1]);
  channel.put_back(read_all(rest[0]));
  ::close(rest[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) return static_cast<End>(WEXITSTATUS(status));
  // It crashed: this process ends in the same way, which is how the owner learns of it.
  std::signal(WTERMSIG(status), SIG_DFL);
  ::raise(WTERMSIG(status));
  ::_exit(1);
}

}  // namespace

Result failed(const std::string& why) {
  Result result;
  result.state = "failed";
  result.why = why;
  return result;
}

WorkOut evaluating(const Points& points) {
  const auto evaluator = std::make_shared<Evaluator>();
  return [evaluator, &points](std::size_t point, const std::string& engine) {
    return result_of(evaluator->evaluate(points.scenario(point, engine)));
  };
}

bool serve(Channel channel, const WorkOut& work_out) {
  keep_pages();
  for (;;) {
    const End end = one_process(channel, work_out);
    if (end != End::worn) return end == End::stopped;
  }
}

}  // namespace stepcast
