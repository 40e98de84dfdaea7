#include "sim/engines/child_process.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <stdexcept>

namespace stepcast {
namespace {

bool write_all(int pipe, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = write(pipe, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

std::string read_all(int pipe) {
  std::string bytes;
  std::array<char, 65536> block{};
  while (true) {
    const ssize_t n = read(pipe, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return bytes;
    bytes.append(block.data(), static_cast<std::size_t>(n));
  }
}

constexpr char fine = '+', failed = '-';

}  // namespace

std::string output_of_child(const std::function<std::string()>& work) {
  std::fflush(nullptr);  // or what is buffered would be written twice
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("the messages engine got no pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("the messages engine got no process");
  if (child == 0) {
    close(ends[0]);
    std::string answer;
    try {
      answer = fine + work();
    } catch (const std::exception& error) {
      answer = failed + std::string(error.what());
    } catch (...) {
      answer = failed + std::string("something that is no exception");
    }
    const bool told = write_all(ends[1], answer);
    _exit(told ? 0 : 1);  // no clean-up: it is the parent's process image
  }
  close(ends[1]);
  std::string answer = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0 || answer.empty())
    throw std::runtime_error("the messages engine's process failed");
  if (answer.front() == failed) throw std::runtime_error(answer.substr(1));
  answer.erase(0, 1);
  return answer;
}

}  // namespace stepcast
