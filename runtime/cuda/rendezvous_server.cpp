#include <fmt/format.h>

#include <algorithm>

#include "runtime/cuda/rendezvous.hpp"
#include "runtime/cuda/wire.hpp"

namespace stepcast::runtime {
namespace {

// After a rank has gone, the others come to where they need it before the message is made.
constexpr Seconds grace = 1;

std::string list_of(const std::vector<int>& ranks) {
  constexpr std::size_t most = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < most; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text + (ranks.size() > most ? fmt::format(" and {} more", ranks.size() - most) : "");
}

}  // namespace

RendezvousServer::RendezvousServer(const Options& options, Explain explain)
    : options_(options),
      explain_(std::move(explain)),
      listener_(options.port),
      members_(static_cast<std::size_t>(options.ranks)),
      last_change_(Clock::now()) {
  accepting_ = std::thread([this] { accept_all(); });
  watching_ = std::thread([this] { watch(); });
}

RendezvousServer::~RendezvousServer() {
  {
    // A connection that is closed under somebody who still reads loses what was sent.
    std::unique_lock<std::mutex> lock(mutex_);
    const Seconds at_most = std::min(5.0, options_.watchdog);
    ending_.wait_for(lock, std::chrono::duration<double>(at_most), [&] {
      return std::all_of(members_.begin(), members_.end(), [](const Member& m) {
        return !m.connection || m.left || m.standing.gone;
      });
    });
    end_ = true;
    ending_.notify_all();
  }
  listener_.shut();
  accepting_.join();
  watching_.join();
  for (const auto& connection : connections_) connection->shut();
  for (std::thread& thread : serving_) thread.join();
}

void RendezvousServer::accept_all() {
  for (;;) {
    const int descriptor = listener_.accept();
    if (descriptor < 0) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    auto connection = std::make_shared<Connection>(descriptor);
    connections_.push_back(connection);
    serving_.emplace_back([this, connection] { serve(connection); });
  }
}

void RendezvousServer::serve(const std::shared_ptr<Connection>& connection) {
  const auto first = connection->receive();
  if (!first || first->kind != wire::hello || of_another_meeting(*first) ||
      !admit(connection, *first)) {
    connection->shut();
    return;
  }
  const int rank = static_cast<int>(first->number);
  Member& member = members_[static_cast<std::size_t>(rank)];
  bool left = false;
  while (const auto frame = connection->receive()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    try {
      if (frame->kind == wire::stand) {
        member.standing = standing_of(frame->bytes);
        member.stood = true;
        last_change_ = Clock::now();
      } else if (frame->kind == wire::exchange) {
        give(rank, *frame);
      } else if (frame->kind == wire::fail) {
        Reader reader(frame->bytes);
        const bool hang = reader.get<bool>();
        const std::string message = reader.text();
        fail({hang, fmt::format("rank {}: {}", rank, message)});
      } else if (frame->kind == wire::leave) {
        left = member.left = true;
        ending_.notify_all();
        break;
      }
    } catch (const std::runtime_error& wrong) {
      fail({false, fmt::format("rank {}: {}", rank, wrong.what())});
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (left || end_) return;
  member.standing.gone = true;
  if (!somebody_gone_) gone_at_ = Clock::now();
  somebody_gone_ = true;
  ending_.notify_all();
}

bool RendezvousServer::of_another_meeting(const Frame& hello) const {
  try {
    Reader reader(hello.bytes);
    return reader.get<int>() != options_.meeting;
  } catch (const std::runtime_error&) {
    return false;  // admit() says what is wrong with it
  }
}

bool RendezvousServer::admit(const std::shared_ptr<Connection>& connection, const Frame& hello) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string wrong;
  try {
    Reader reader(hello.bytes);
    reader.get<int>();  // the meeting
    const int ranks = reader.get<int>();
    const std::string agreement = reader.text();
    if (ranks != options_.ranks) {
      wrong = fmt::format("rank {} was started as one of {} ranks, rank 0 as one of {}",
                          hello.number, ranks, options_.ranks);
    } else if (hello.number >= members_.size()) {
      wrong = fmt::format("rank {} of {} ranks", hello.number, ranks);
    } else if (members_[hello.number].connection) {
      wrong = fmt::format("two processes are rank {}", hello.number);
    } else if (come_ > 0 && agreement != agreement_) {
      wrong = fmt::format("rank {} does not agree with the others: {}, not {}", hello.number,
                          agreement, agreement_);
    }
    if (wrong.empty()) agreement_ = agreement;
  } catch (const std::runtime_error& cut) {
    wrong = cut.what();
  }
  if (!wrong.empty()) {
    connection->send({wire::failed, 0, wrong});
    fail({false, wrong});
    return false;
  }
  connection->send({wire::welcome, 0, {}});
  members_[hello.number].connection = connection;
  if (failure_) tell(members_[hello.number]);
  ++come_;
  last_change_ = Clock::now();
  return true;
}

void RendezvousServer::give(int rank, const Frame& frame) {
  Reader reader(frame.bytes);
  reader.get<std::uint32_t>();
  const std::string name = reader.text();
  std::string mine = reader.text();
  Exchange& exchange = exchanges_[frame.number];
  if (exchange.given.empty()) {
    exchange.name = name;
    exchange.given.resize(members_.size());
  } else if (exchange.name != name) {
    throw std::runtime_error("comes to " + name + " where others come to " + exchange.name);
  }
  exchange.given[static_cast<std::size_t>(rank)] = std::move(mine);
  members_[static_cast<std::size_t>(rank)].exchanges = frame.number + 1;
  last_change_ = Clock::now();
  if (++exchange.count < options_.ranks) return;
  std::string all;
  for (const std::string& given : exchange.given) put(all, given);
  for (const Member& member : members_) {
    member.connection->send({wire::together, frame.number, all});
  }
  exchanges_.erase(frame.number);
}

void RendezvousServer::fail(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  for (const Member& member : members_) {
    if (member.connection && !member.standing.gone) tell(member);
  }
}

void RendezvousServer::tell(const Member& member) const {
  member.connection->send({wire::failed, failure_->hang ? 1u : 0u, failure_->message});
}

// An exchange that some ranks have not come to though they are in no run, or the run.
std::string RendezvousServer::what_is_waited_for() const {
  std::vector<int> absent;
  for (std::size_t r = 0; r < members_.size(); ++r) {
    if (!members_[r].connection) absent.push_back(static_cast<int>(r));
  }
  if (!absent.empty()) {
    return fmt::format("{} of {} did not come to the rendezvous", list_of(absent), options_.ranks);
  }
  if (!exchanges_.empty()) {
    const auto& [number, exchange] = *exchanges_.begin();
    bool running = false;
    for (std::size_t r = 0; r < members_.size(); ++r) {
      const Member& member = members_[r];
      if (member.exchanges > number) continue;
      absent.push_back(static_cast<int>(r));
      running = running || (member.stood && !member.standing.ended);
    }
    if (!running) {
      std::string gone;
      for (const int rank : absent) {
        if (!members_[static_cast<std::size_t>(rank)].standing.gone) continue;
        gone += fmt::format("; rank {} is gone", rank);
      }
      return fmt::format("{} did not come to \"{}\"{}", list_of(absent), exchange.name, gone);
    }
  }
  std::vector<RankStanding> standings;
  for (const Member& member : members_) standings.push_back(member.standing);
  return explain_(standings);
}

void RendezvousServer::watch() {
  const Seconds breath = std::min(0.5, options_.watchdog / 4);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!end_) {
    ending_.wait_for(lock, std::chrono::duration<double>(breath));
    if (end_ || failure_) continue;
    for (const Member& member : members_) {
      if (member.connection && !member.left && !member.standing.gone) {
        member.connection->send({wire::alive, 0, {}});
      }
    }
    const auto since = [](Clock::time_point then) {
      return std::chrono::duration<double>(Clock::now() - then).count();
    };
    if (somebody_gone_ && since(gone_at_) >= std::min(grace, options_.watchdog)) {
      fail({true, what_is_waited_for()});
      continue;
    }
    bool all_left = true;
    bool running = false;
    for (const Member& member : members_) {
      all_left = all_left && member.left;
      running = running || (member.stood && !member.standing.ended);
    }
    const bool waits = come_ < options_.ranks || !exchanges_.empty() || running;
    const Seconds allowed = running ? options_.watchdog : options_.patience;
    if (waits && !all_left && since(last_change_) >= allowed) fail({true, what_is_waited_for()});
  }
}

}  // namespace stepcast::runtime
