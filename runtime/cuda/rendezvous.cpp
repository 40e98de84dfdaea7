// A rank's side. The server's is rendezvous_server.cpp.

#include "runtime/cuda/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/cpu/executor.hpp"
#include "runtime/cuda/gpu.hpp"
#include "runtime/cuda/wire.hpp"

namespace stepcast::runtime {

using Clock = std::chrono::steady_clock;

Rendezvous::Rendezvous(const Options& options) : options_(options), last_heard_(Clock::now()) {
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(options.patience));
  while (!knock(std::chrono::duration<double>(until - Clock::now()).count())) {
    if (Clock::now() >= until) {
      throw GpuError(fmt::format("rank {}: nobody answers at {}:{} (rank 0) after {:g} s",
                                 options.rank, options.address, options.port, options.patience));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  listening_ = std::thread([this] { listen(); });
}

// True when the server has answered: with a welcome, or with what is wrong.
bool Rendezvous::knock(Seconds within) {
  const int descriptor = connect_to(options_.address, options_.port, std::max(within, 0.0));
  if (descriptor < 0) return false;
  connection_ = std::make_shared<Connection>(descriptor);
  std::string bytes;
  put(bytes, options_.meeting);
  put(bytes, options_.ranks);
  put(bytes, options_.agreement);
  connection_->send({wire::hello, static_cast<std::uint32_t>(options_.rank), bytes});
  if (!connection_->readable(std::max(within, 0.0))) return false;  // it is stopped
  const auto answer = connection_->receive();
  if (!answer) return false;  // the server of another meeting
  last_heard_ = Clock::now();
  if (answer->kind == wire::failed) keep({answer->number != 0, answer->bytes});
  return true;
}

Rendezvous::~Rendezvous() {
  leaving_ = true;
  connection_->send({wire::leave, static_cast<std::uint32_t>(options_.rank), {}});
  connection_->shut();
  listening_.join();
}

void Rendezvous::keep(const Failure& failure) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failed_) failure_ = failure;
  failed_ = true;
  heard_.notify_all();
}

void Rendezvous::listen() {
  while (const auto frame = connection_->receive()) {
    last_heard_ = Clock::now();
    if (frame->kind == wire::failed) {
      keep({frame->number != 0, frame->bytes});
    } else if (frame->kind == wire::together) {
      try {
        Reader reader(frame->bytes);
        std::vector<std::string> all;
        while (!reader.over()) all.push_back(reader.text());
        const std::lock_guard<std::mutex> lock(mutex_);
        answers_[frame->number] = std::move(all);
        heard_.notify_all();
      } catch (const std::runtime_error& cut) {
        keep({false, cut.what()});
      }
    }
  }
  if (!leaving_) keep({true, "rank 0, which holds the rendezvous, is gone"});
}

bool Rendezvous::failed() {
  if (failed_) return true;
  const Seconds silent = std::chrono::duration<double>(Clock::now() - last_heard_.load()).count();
  if (silent < options_.watchdog + 2) return false;
  keep({true, fmt::format("rank 0, which holds the rendezvous, has not spoken for {:.0f} s: its "
                          "process is stopped, or the network is cut",
                          silent)});
  return true;
}

Failure Rendezvous::failure() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void Rendezvous::throw_failure() {
  const Failure why = failure();
  if (why.hang) throw Hang(why.message);
  throw GpuError(why.message);
}

std::vector<std::string> Rendezvous::exchange(const std::string& name, const std::string& mine) {
  const std::uint32_t number = exchanges_++;
  std::string bytes;
  put(bytes, static_cast<std::uint32_t>(options_.rank));
  put(bytes, name);
  put(bytes, mine);
  connection_->send({wire::exchange, number, bytes});
  std::unique_lock<std::mutex> lock(mutex_);
  while (!failed_ && answers_.find(number) == answers_.end()) {
    heard_.wait_for(lock, std::chrono::milliseconds(200));
    lock.unlock();
    failed();
    lock.lock();
  }
  const auto answer = answers_.find(number);
  if (answer == answers_.end()) {
    lock.unlock();
    throw_failure();
  }
  std::vector<std::string> all = std::move(answer->second);
  answers_.erase(answer);
  return all;
}

void Rendezvous::stand(const RankStanding& standing) {
  connection_->send({wire::stand, static_cast<std::uint32_t>(options_.rank), to_bytes(standing)});
}

void Rendezvous::fail(const Failure& failure) {
  keep(failure);
  std::string bytes;
  put(bytes, failure.hang);
  put(bytes, failure.message);
  connection_->send({wire::fail, static_cast<std::uint32_t>(options_.rank), bytes});
}

}  // namespace stepcast::runtime
