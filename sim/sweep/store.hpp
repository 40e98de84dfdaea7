#pragma once
// Results in an SQLite file, a row a point:
//
//   points   key           which point it is (points.hpp)
//            version       of the stepcast that worked it out, with its build: 0.1.0+4f1d9c0a7be2
//            model, nodes, strategy, ...   the keys of the scenario that some point says; NULL:
//            unsaid state, why, binding, step_time_s, ...   what came out (outputs.hpp); NULL: not
//            known
//
// so that `sqlite3 sweep.db "select strategy, min(step_time_s) from points group by 1"` reads it. A
// key that a later sweep says for the first time becomes a column then. There is no time and no
// place of the computation in it: the same points make the same table, whoever worked them out, in
// whatever order.
//
// Written with a log beside it (WAL) and one transaction a batch: a process that is killed leaves
// all batches before, readers may look while it works. A row of another version or build of
// stepcast is no answer and is written over: a build that forecasts something else may have the
// same version (base/version.hpp). Tested by tests/unit/sweep/store_test.cpp.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sim/sweep/expression.hpp"
#include "sim/sweep/outputs.hpp"

namespace stepcast {

struct StoredPoint {
  std::string key;
  std::vector<Cell> inputs;  // by the keys that put() was told
  Result result;
};

// What is in the file, ordered by the inputs from left to right, numbers before words.
struct PointTable {
  std::vector<std::string> inputs;  // names of the scenario's keys, in the scenario's order
  struct Row {
    std::string key, version;
    std::vector<Cell> inputs;
    Result result;
  };
  std::vector<Row> rows;
};

// Another program may hold the file. A Store waits for it, half a minute at most, and says so once
// it has waited for `after_ms`.
struct StoreWait {
  std::function<void(const std::string&)> say = {};  // not called when the Store ends
  int after_ms = 2000;
};

class Store {
 public:
  enum class Mode { create, read };
  // create: makes the file where there is none. Throws InputError where it cannot be opened, is no
  // database, is another program's, or stays locked.
  Store(const std::string& path, Mode mode, StoreWait wait = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // The keys of all points that this build of stepcast has worked out. What ended with a process
  // ("failed") is not among them: it is tried again.
  std::unordered_set<std::string> known() const;

  // All in one transaction. `inputs`: names of scenario keys.
  void put(const std::vector<std::string>& inputs, const std::vector<StoredPoint>& points);

  // Rows of all builds.
  PointTable read() const;

 private:
  struct Database;
  std::unique_ptr<Database> db_;
};

// Of the library that databases are written with: "3.40.1".
std::string sqlite_version();

}  // namespace stepcast
