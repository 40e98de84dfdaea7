#include "benchmarks/process.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace stepcast::bench {

constexpr int does_not_fit = 3;  // the exit code of a forecast that stands and says so

ProcessCost measure(const std::vector<std::string>& command, int times) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  ProcessCost cost;
  std::vector<double> seconds;
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("cannot start a process");
    if (child == 0) {
      const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
      ::dup2(nowhere, STDOUT_FILENO);
      ::dup2(nowhere, STDERR_FILENO);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    int status = 0;
    rusage usage{};
    ::wait4(child, &status, 0, &usage);
    const auto end = std::chrono::steady_clock::now();
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code != 0 && code != does_not_fit) {
      throw std::runtime_error(command[0] + " " + command[1] + " failed");
    }
    seconds.push_back(std::chrono::duration<double>(end - begin).count());
    cost.peak_mb = std::max(cost.peak_mb, static_cast<double>(usage.ru_maxrss) * 1024 / 1e6);
  }
  cost.seconds = median(std::move(seconds));
  return cost;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace stepcast::bench
