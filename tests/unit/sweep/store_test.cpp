// The database: what is put in comes out, in one order, and nothing else is taken for one.
#include "sim/sweep/store.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/version.hpp"
#include "tests/unit/sweep/message.hpp"

using namespace stepcast;
using test::message;

namespace {

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("store" + std::to_string(getpid()))) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

StoredPoint point(const std::string& key, std::vector<Cell> inputs, double step_time) {
  StoredPoint p{key, std::move(inputs), {}};
  p.result.state = "ok";
  p.result.binding = "compute";
  p.result.numbers[static_cast<std::size_t>(output_index("step_time_s"))] = step_time;
  return p;
}

}  // namespace

TEST_CASE("what is put in comes out to the bit, ordered by the inputs, numbers as numbers") {
  const Folder folder;
  const std::string file = folder.file("s.db");
  const double odd = 0.1 + 0.2;
  {
    Store store(file, Store::Mode::create);
    store.put({"strategy", "nodes"}, {point("c", {std::string("fsdp2"), 16.0}, 3),
                                      point("b", {std::string("ddp"), 16.0}, 2)});
    store.put({"strategy", "nodes"}, {point("a", {std::string("ddp"), 2.0}, odd)});
    CHECK(store.known().size() == 3);
  }
  CHECK_FALSE(std::filesystem::exists(file + "-wal"));  // one file, also after it was read
  const PointTable table = Store(file, Store::Mode::read).read();
  CHECK(table.inputs == std::vector<std::string>{"nodes", "strategy"});  // the scenario's order
  REQUIRE(table.rows.size() == 3);
  CHECK(table.rows[0].key == "a");  // 2 before 16
  CHECK(table.rows[1].key == "b");
  CHECK(table.rows[2].key == "c");
  CHECK(table.rows[0].inputs == std::vector<Cell>{2.0, std::string("ddp")});
  CHECK(table.rows[0].result.numbers[static_cast<std::size_t>(output_index("step_time_s"))] == odd);
  CHECK(std::isnan(table.rows[0].result.numbers[static_cast<std::size_t>(output_index("mfu"))]));
  CHECK_FALSE(std::filesystem::exists(file + "-shm"));
}

TEST_CASE("a key that a later sweep says first is a column from then on, empty before") {
  const Folder folder;
  Store store(folder.file("s.db"), Store::Mode::create);
  store.put({"nodes"}, {point("a", {2.0}, 1)});
  store.put({"nodes", "bucket_cap_mb"}, {point("b", {2.0, 25.0}, 1)});
  const PointTable table = store.read();
  CHECK(table.inputs == std::vector<std::string>{"nodes", "bucket_cap_mb"});
  CHECK(table.rows[0].inputs == std::vector<Cell>{2.0, Cell()});
  CHECK(table.rows[1].inputs == std::vector<Cell>{2.0, 25.0});
}

TEST_CASE("a point put in twice is there once, and what failed is to be tried again") {
  const Folder folder;
  Store store(folder.file("s.db"), Store::Mode::create);
  StoredPoint failed = point("a", {2.0}, 1);
  failed.result.state = "failed";
  store.put({"nodes"}, {failed});
  CHECK(store.known().empty());
  store.put({"nodes"}, {point("a", {2.0}, 5)});
  CHECK(store.known().count("a") == 1);
  CHECK(store.read().rows.size() == 1);
}

TEST_CASE("what is no database of a sweep is refused and left as it is") {
  const Folder folder;
  std::ofstream(folder.file("text.db")) << "this is no database at all, but text that is long "
                                           "enough to be looked at as one; this is no database";
  for (const Store::Mode mode : {Store::Mode::create, Store::Mode::read}) {
    CHECK(message([&] { Store(folder.file("text.db"), mode); }).find("not a database") !=
          std::string::npos);
    CHECK(message([&] {
            Store(std::filesystem::temp_directory_path(), mode);
          }).find("is a directory") != std::string::npos);
    CHECK(message([&] { Store("/dev/null", mode); }).find("no regular file") != std::string::npos);
    CHECK(message([&] { Store(folder.file("none/s.db"), mode); }) != "nothing");
    CHECK(message([&] { Store("", mode); }).find("is no file") != std::string::npos);
  }
  CHECK(message([&] { Store(folder.file("new.db"), Store::Mode::read); }).find("is not there") !=
        std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.file("new.db")));
  std::ofstream(folder.file("empty.db")).flush();
  CHECK(message([&] {
          Store(folder.file("empty.db"), Store::Mode::read);
        }).find("a database of something else") != std::string::npos);
}

TEST_CASE("a row of another build of the same version is worked out again and written over") {
  const Folder folder;
  const std::string file = folder.file("s.db");
  { Store(file, Store::Mode::create).put({"nodes"}, {point("a", {2.0}, 1), point("b", {4.0}, 1)}); }
  const auto sql = [&](const std::string& text) {
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open(file.c_str(), &db) == SQLITE_OK);
    CHECK(sqlite3_exec(db, text.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(db);
  };
  sql("UPDATE points SET version = '" + std::string(version()) + "+000000000000' WHERE key = 'a'");
  Store store(file, Store::Mode::create);
  CHECK(store.known() == std::unordered_set<std::string>{"b"});
  store.put({"nodes"}, {point("a", {2.0}, 5)});
  CHECK(store.known().size() == 2);
  REQUIRE(store.read().rows.size() == 2);
  for (const PointTable::Row& row : store.read().rows) CHECK(row.version == build_version());
}

TEST_CASE("a database that another program holds is waited for, and that is said once") {
  const Folder folder;
  const std::string file = folder.file("s.db");
  { Store(file, Store::Mode::create).put({"nodes"}, {point("a", {2.0}, 1)}); }
  sqlite3* other = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &other) == SQLITE_OK);
  REQUIRE(sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr) == SQLITE_OK);
  std::vector<std::string> said;
  // The other lets go once it hears of it: no second is waited here.
  const auto hear = [&](const std::string& text) {
    said.push_back(text);
    sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr);
  };
  {
    Store store(file, Store::Mode::create, {hear, 0});
    CHECK(said.size() == 1);
    CHECK(said.at(0) == file + " is locked by another program: waiting for it, 30 s at most");
    REQUIRE(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK);
    store.put({"nodes"}, {point("b", {4.0}, 1)});
    CHECK(said.size() == 2);
    CHECK(store.known().size() == 2);
    sqlite3_close(other);
  }
}
