// Ranks that meet over loopback, and what they hear when one of them does not come, dies or stops.

#include "runtime/cuda/rendezvous.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "runtime/cpu/executor.hpp"
#include "runtime/cuda/wire.hpp"

namespace stepcast::runtime {
namespace {

RendezvousServer::Options server_options(int ranks, Seconds watchdog = 30, Seconds patience = 30) {
  return {0, ranks, watchdog, patience};
}
std::string counted(const std::vector<RankStanding>& all) {
  std::string text = "stuck:";
  for (const RankStanding& s : all) {
    text += s.gone ? " gone" : s.ended ? " ended" : " op" + std::to_string(s.at.op);
  }
  return text;
}
Rendezvous::Options client(const RendezvousServer& server, int rank, int ranks,
                           const std::string& agreement = "a") {
  Rendezvous::Options o;
  o.rank = rank;
  o.ranks = ranks;
  o.port = server.port();
  o.agreement = agreement;
  return o;
}
RankStanding standing(OpIndex op, bool ended = false) {
  RankStanding s;
  s.at = {0, 0, 0, op};
  s.ended = ended;
  return s;
}
// What a rank hears in the end.
std::string heard(Rendezvous& rendezvous) {
  while (!rendezvous.failed()) std::this_thread::yield();
  return rendezvous.failure().message;
}

TEST_CASE("everybody gets what everybody gave, in the order of ranks, again and again") {
  RendezvousServer server(server_options(4), counted);
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      Rendezvous rendezvous(client(server, rank, 4));
      for (int round = 0; round < 3; ++round) {
        const auto all = rendezvous.exchange(
            "round", std::string(1, static_cast<char>('a' + rank)) + std::to_string(round));
        for (const std::string& each : all) results[static_cast<std::size_t>(rank)] += each + " ";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) {
    CHECK(result == "a0 b0 c0 d0 a1 b1 c1 d1 a2 b2 c2 d2 ");
  }
}

TEST_CASE("ranks that never come are named") {
  RendezvousServer server(server_options(3, 30, 0.3), counted);
  Rendezvous rendezvous(client(server, 1, 3));
  CHECK(heard(rendezvous) == "ranks 0, 2 of 3 did not come to the rendezvous");
  CHECK_THROWS_AS(rendezvous.exchange("x", ""), Hang);
}

TEST_CASE("a rank that does not come to an exchange is named with it") {
  RendezvousServer server(server_options(2, 30, 0.3), counted);
  Rendezvous first(client(server, 0, 2));
  Rendezvous second(client(server, 1, 2));
  std::string said;
  std::thread waits([&] {
    try {
      first.exchange("NCCL's unique id", "id");
    } catch (const Hang& hang) {
      said = hang.what();
    }
  });
  waits.join();
  CHECK(said == "rank 1 did not come to \"NCCL's unique id\"");
}

TEST_CASE("processes that were started differently are refused, and all hear why") {
  RendezvousServer server(server_options(2), counted);
  Rendezvous first(client(server, 0, 2, "ddp"));
  std::thread meets([&] { CHECK_THROWS(first.exchange("x", "")); });  // admitted, and waits
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  SUBCASE("another schedule") {
    Rendezvous second(client(server, 1, 2, "fsdp2"));
    CHECK(heard(second) == "rank 1 does not agree with the others: fsdp2, not ddp");
    CHECK(heard(first) == "rank 1 does not agree with the others: fsdp2, not ddp");
  }
  SUBCASE("another number of ranks") {
    Rendezvous second(client(server, 1, 3, "ddp"));
    CHECK(heard(second) == "rank 1 was started as one of 3 ranks, rank 0 as one of 2");
  }
  SUBCASE("one rank twice") {
    Rendezvous second(client(server, 0, 2, "ddp"));
    CHECK(heard(second) == "two processes are rank 0");
  }
  meets.join();
}

TEST_CASE("when no standing changes for the watchdog's time, all hear who is missing") {
  RendezvousServer server(server_options(2, 0.3), counted);
  Rendezvous first(client(server, 0, 2));
  Rendezvous second(client(server, 1, 2));
  first.stand(standing(5));
  second.stand(standing(3));
  CHECK(heard(first) == "stuck: op5 op3");
  CHECK(heard(second) == "stuck: op5 op3");
  CHECK(second.failure().hang);
}

TEST_CASE("a rank that is at the end waits for those that still run") {
  RendezvousServer server(server_options(2, 3, 0.2), counted);
  Rendezvous first(client(server, 0, 2));
  Rendezvous second(client(server, 1, 2));
  second.stand(standing(0));
  first.stand(standing(9, true));
  std::thread ends([&] { CHECK(first.exchange("the end", "").size() == 2); });
  for (int op = 1; op < 6; ++op) {  // longer than the patience for those who do not run
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    second.stand(standing(op));
  }
  second.stand(standing(6, true));
  second.exchange("the end", "");
  ends.join();
}

TEST_CASE("a rank that says why it cannot go on ends all") {
  RendezvousServer server(server_options(2), counted);
  Rendezvous first(client(server, 0, 2));
  Rendezvous second(client(server, 1, 2));
  second.fail({false, "cudaMalloc: out of memory"});
  CHECK(heard(first) == "rank 1: cudaMalloc: out of memory");
  CHECK(!first.failure().hang);
}

TEST_CASE("who comes to the next meeting while the last one ends is let in to the next") {
  auto first = std::make_unique<RendezvousServer>(server_options(2), counted);
  const int port = first->port();
  auto slow = std::make_unique<Rendezvous>(client(*first, 1, 2));
  auto fast = std::make_unique<Rendezvous>(client(*first, 0, 2));
  Rendezvous::Options next = client(*first, 0, 2);
  next.meeting = 1;
  fast.reset();  // has said goodbye, and is at the next meeting's door: this server's port
  std::string heard_there;
  std::thread at_the_door([&] {
    Rendezvous rendezvous(next);
    heard_there = rendezvous.exchange("x", "fast").back();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it knocks a few times
  CHECK(!slow->failed());  // nobody is told that two processes are rank 0
  slow.reset();
  first.reset();
  RendezvousServer::Options options = server_options(2);
  options.port = port;
  options.meeting = 1;
  RendezvousServer second(options, counted);
  Rendezvous::Options other = client(second, 1, 2);
  other.meeting = 1;
  Rendezvous rendezvous(other);
  CHECK(rendezvous.exchange("x", "slow").front() == "fast");
  at_the_door.join();
  CHECK(heard_there == "slow");
}

TEST_CASE("a process that dies is missed, and named") {
  RendezvousServer server(server_options(2, 0.4), counted);
  Rendezvous first(client(server, 0, 2));
  first.stand(standing(5));
  {
    Connection dies(connect_to("127.0.0.1", server.port(), 5));
    std::string hello;
    put(hello, 0);  // the meeting
    put(hello, 2);
    put(hello, std::string("a"));
    dies.send({wire::hello, 1, hello});
    dies.send({wire::stand, 1, to_bytes(standing(4))});
  }
  CHECK(heard(first) == "stuck: op5 gone");
}

TEST_CASE("who no longer hears rank 0 ends by itself") {
  auto server = std::make_unique<RendezvousServer>(server_options(2, 0.3), counted);
  Rendezvous first(client(*server, 0, 2));
  CHECK(!first.failed());
  server.reset();
  CHECK(heard(first) == "rank 0, which holds the rendezvous, is gone");
}

TEST_CASE("bytes of another program are no rank") {
  RendezvousServer server(server_options(1), counted);
  {
    Connection stranger(connect_to("127.0.0.1", server.port(), 5));
    stranger.send({1, 2, "GET / HTTP/1.1"});
    CHECK(!stranger.receive());
  }
  Rendezvous only(client(server, 0, 1));
  CHECK(only.exchange("x", "y") == std::vector<std::string>{"y"});
}

TEST_CASE("a port that is taken is said, with the variable that chooses it") {
  const Listener taken(0);
  std::string said;
  try {
    const Listener second(taken.port());
  } catch (const InputError& error) {
    said = error.what();
  }
  CHECK(said.starts_with("environment: MASTER_PORT: port "));
}

}  // namespace
}  // namespace stepcast::runtime
