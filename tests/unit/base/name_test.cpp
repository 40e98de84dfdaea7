#include "base/name.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

using stepcast::Name;

TEST_CASE("equal texts are one name, different texts are not") {
  const std::string text = "layers.3";
  CHECK(Name("layers.3") == Name(text));
  CHECK(Name("layers.3").identity() == Name(text).identity());
  CHECK(Name("layers.3") != Name("layers.30"));
}

TEST_CASE("a name without text is the empty name") {
  CHECK(Name().empty());
  CHECK(Name() == Name(""));
  CHECK_FALSE(Name("a").empty());
}

TEST_CASE("a name outlives the string it was made from") {
  Name name;
  {
    std::string text(100, 'q');
    name = text;
  }
  CHECK(name.str() == std::string(100, 'q'));
}

TEST_CASE("names keep bytes that are not text") {
  const std::string text("a\0b", 3);
  CHECK(Name(text).str() == text);
  CHECK(Name(text) != Name("a"));
}

TEST_CASE("names sort as their texts, whatever order they were made in") {
  std::vector<Name> names{"zeta", "alpha", "mid"};
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<Name>{"alpha", "mid", "zeta"});
}

TEST_CASE("names are keys of hash maps") {
  std::unordered_map<Name, int> counts;
  for (const char* text : {"a", "b", "a", "a"}) ++counts[text];
  CHECK(counts.at("a") == 3);
  CHECK(counts.at("b") == 1);
  CHECK(counts.size() == 2);
}

TEST_CASE("threads that make the same names get the same ones") {
  constexpr int threads = 4;
  constexpr int words = 500;
  std::vector<std::vector<Name>> made(threads);
  std::vector<std::thread> pool;
  pool.reserve(threads);
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&made, t] {
      for (int i = 0; i < words; ++i) {
        made[static_cast<std::size_t>(t)].emplace_back("word" + std::to_string(i));
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  for (int t = 1; t < threads; ++t) CHECK(made[static_cast<std::size_t>(t)] == made[0]);
  CHECK(made[0][499].str() == "word499");
}
