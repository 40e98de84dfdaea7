#include "cli/processes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "runtime/mpi/open.hpp"

namespace stepcast::cli {
namespace {

std::atomic<bool> told_to_end{false};

void await(runtime::Wire& wire, runtime::Wire::Request request) {
  while (!wire.done(request)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// What a rank found out while it prepared: an exit code, and why in words.
struct Found {
  int code = 0;
  std::string why;
};

Found find(const std::function<void()>& prepare) {
  try {
    prepare();
    return {};
  } catch (const InputError& error) {
    return {2, error.what()};
  } catch (const InfeasibleError& error) {
    return {3, error.what()};
  } catch (const std::exception& error) {
    return {1, error.what()};
  }
}

void say(const std::string& why) {
  std::fprintf(stderr, "stepcast: %s\n", why.c_str());
  std::fflush(stderr);
}

// The largest exit code of all; rank 0 says why, and who sees it differently.
int agree(runtime::Wire& wire, const Found& mine) {
  std::int32_t code = mine.code;
  auto* verdict = reinterpret_cast<std::byte*>(&code);
  if (wire.rank() != 0) {
    std::vector<std::byte> letter(sizeof code + mine.why.size());
    std::memcpy(letter.data(), &code, sizeof code);
    std::memcpy(letter.data() + sizeof code, mine.why.data(), mine.why.size());
    await(wire, wire.send(0, runtime::gather, letter.data(), letter.size()));
    await(wire, wire.receive(0, runtime::gather, verdict, sizeof code));
    return code;
  }
  if (mine.code != 0) say(mine.why);
  for (int come = 1; come < wire.size();) {
    int from = 0;
    std::size_t bytes = 0;
    if (!wire.next(runtime::gather, from, bytes)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    std::vector<std::byte> letter(bytes);
    await(wire, wire.receive(from, runtime::gather, letter.data(), bytes));
    std::int32_t theirs = 0;
    std::memcpy(&theirs, letter.data(), sizeof theirs);
    const std::string why(reinterpret_cast<const char*>(letter.data()) + sizeof theirs,
                          bytes - sizeof theirs);
    if (why != mine.why) say(fmt::format("rank {}: {}", from, why.empty() ? "is ready" : why));
    code = std::max(code, theirs);
    ++come;
  }
  for (int r = 1; r < wire.size(); ++r) {
    await(wire, wire.send(r, runtime::gather, verdict, sizeof code));
  }
  return code;
}

}  // namespace

const std::atomic<bool>* end_on_signals() {
  static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");
  for (const int signal : {SIGTERM, SIGINT}) {
    std::signal(signal, [](int) { told_to_end.store(true); });
  }
  return &told_to_end;
}

runtime::Execution execute_here(runtime::Wire* wire, const Schedule& schedule, runtime::Work& work,
                                runtime::ExecuteOptions how) {
  if (wire == nullptr) return runtime::execute(schedule, work, how);
  how.end_now = end_on_signals();
  return runtime::execute_alone(schedule, work, *wire, how);
}

std::string from_rank_0(runtime::Wire& wire, const std::string& text) {
  if (wire.rank() == 0) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    for (int r = 1; r < wire.size(); ++r) {
      await(wire, wire.send(r, runtime::gather, bytes, text.size()));
    }
    return text;
  }
  int from = 0;
  std::size_t size = 0;
  while (!wire.next(runtime::gather, from, size)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::string got(size, '\0');
  await(wire, wire.receive(0, runtime::gather, reinterpret_cast<std::byte*>(got.data()), size));
  return got;
}

int as_one_rank(runtime::Wire& wire, const std::function<Run()>& prepare) {
  Run run;
  const int code = agree(wire, find([&] { run = prepare(); }));
  if (code != 0) {
    wire.leave();
    return code;
  }
  const Found found = find([&] { run(); });
  if (found.code == 0) {
    wire.leave();
    return 0;
  }
  // Of a mistake in the input every rank would say the same.
  if (found.code != 2 || wire.rank() == 0) say(fmt::format("rank {}: {}", wire.rank(), found.why));
  std::fflush(stdout);
  _exit(found.code);  // messages may be under way that nobody will take: no tidy end of MPI
}

void check_executor(const std::string& executor, const std::string& would) {
  const Where where{.file = "--executor", .line = 0, .key = ""};
  if (!executor.empty() && executor != "threads" && executor != "mpi" && executor != "nccl") {
    throw not_accepted(where, executor, {"threads", "mpi", "nccl"});
  }
  if (executor == "threads" && runtime::under_mpirun()) {
    throw InputError(where, "threads would " + would +
                                " in each of these processes; accepted: mpi, or without stepcast "
                                "launch");
  }
}

}  // namespace stepcast::cli
