// Messages over a pair of sockets: whole, in order, and nothing believed.
#include "sim/sweep/channel.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <utility>

using namespace stepcast;

namespace {

std::pair<Channel, Channel> two() {
  int pair[2] = {-1, -1};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  return {Channel(pair[0]), Channel(pair[1])};
}

}  // namespace

TEST_CASE("messages arrive whole and in order, empty ones too") {
  auto [here, there] = two();
  CHECK(here.send("one"));
  CHECK(here.send(""));
  CHECK(here.send(std::string(100'000, 'x')));
  CHECK(there.receive().value() == "one");
  CHECK(there.receive().value().empty());
  CHECK(there.receive().value().size() == 100'000);
  std::vector<std::string> messages;
  CHECK(there.take(messages));
  CHECK(messages.empty());  // without waiting
  here.send("two");
  CHECK(there.take(messages));
  CHECK(messages == std::vector<std::string>{"two"});
  here.send("three");
  here.close();
  CHECK_FALSE(there.take(messages));  // gone, and what came before is there
  CHECK(messages.back() == "three");
  CHECK_FALSE(there.send("four"));  // no signal
  CHECK_FALSE(there.receive());
}

TEST_CASE("a length beyond the limit ends the connection") {
  auto [here, there] = two();
  const std::string nonsense(64, '\xff');
  REQUIRE(write(here.socket(), nonsense.data(), nonsense.size()) == 64);
  std::vector<std::string> messages;
  CHECK_FALSE(there.take(messages));
  CHECK(messages.empty());
}

TEST_CASE("a result comes back to the bit, and a cut one is known as such") {
  Result result;
  result.state = "ok";
  result.why = "a \"sentence\"";
  result.binding = "nic";
  result.numbers[1] = 0.1 + 0.2;
  Writer writer;
  writer.number(7);
  write(writer, result);
  const std::string bytes = writer.done();
  Reader reader(bytes);
  CHECK(reader.number() == 7);
  const Result back = read_result(reader);
  CHECK(reader.good());
  CHECK(reader.at_end());
  CHECK(back.why == result.why);
  CHECK(back.numbers[1] == result.numbers[1]);
  CHECK(std::isnan(back.numbers[0]));
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, bytes.size() - 1}) {
    const std::string part = bytes.substr(0, length);
    Reader cut(part);
    cut.number();
    read_result(cut);
    CHECK_FALSE(cut.good());
  }
}
