#include "sim/sweep/store.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "base/version.hpp"
#include "sim/forecast/scenario_keys.hpp"

namespace stepcast {
namespace {

constexpr int our_application = 0x53544350;  // "STCP"
constexpr int our_layout = 1;
constexpr int busy_ms = 30'000;

// Columns before those of the scenario's keys.
std::string fixed_columns() {
  std::string text = "key, version, state, why, binding";
  for (const Output& output : outputs) text += fmt::format(", {}", output.name);
  return text;
}
constexpr int fixed_count = 5 + static_cast<int>(outputs.size());

std::string quoted(const std::string& column) { return '"' + column + '"'; }  // keys have no quotes

}  // namespace

struct Store::Database {
  std::string path;
  StoreWait wait;
  sqlite3* handle = nullptr;
  bool writes = false;
  int waited_ms = 0;  // for the lock that is waited for now
  bool said = false;

  ~Database() {
    wait.say = nullptr;  // whoever listened may be gone
    // Back to one file, where nobody reads just now: it may be copied, and read where nothing may
    // be written.
    if (writes) sqlite3_exec(handle, "PRAGMA journal_mode=DELETE", nullptr, nullptr, nullptr);
    sqlite3_close(handle);
  }

  [[noreturn]] void fail(const char* what) const {
    const char* why = handle == nullptr ? "out of memory" : sqlite3_errmsg(handle);
    throw InputError({path, 0, ""}, fmt::format("{}: {}", what, why));
  }

  // SQLite asks whether to go on waiting for a lock, `times` after it was first asked.
  static int on_busy(void* self, int times) {
    Database& db = *static_cast<Database*>(self);
    if (times == 0) {
      db.waited_ms = 0;
      db.said = false;
    }
    if (db.wait.say && !db.said && db.waited_ms >= db.wait.after_ms) {
      db.said = true;
      db.wait.say(fmt::format("{} is locked by another program: waiting for it, {} s at most",
                              db.path, busy_ms / 1000));
    }
    if (db.waited_ms >= busy_ms) return 0;
    const int pause_ms = std::min(100, 1 << std::min(times, 7));
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    db.waited_ms += pause_ms;
    return 1;
  }

  void run(const std::string& sql, const char* what = "cannot be written") const {
    if (sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail(what);
  }

  // `write` as one transaction that nobody else's is beside: what it finds stays as it is until
  // then.
  template <typename Write>
  void alone(Write&& write) const {
    run("BEGIN IMMEDIATE");
    try {
      write();
    } catch (...) {
      sqlite3_exec(handle, "ROLLBACK", nullptr, nullptr, nullptr);
      throw;
    }
    run("COMMIT");
  }

  // SQLite does not ask the busy handler here: of two that come at once one would be refused.
  void log_ahead() {
    for (int times = 0;; ++times) {
      const int code =
          sqlite3_exec(handle, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr) & 0xff;
      if (code == SQLITE_OK) return;
      if ((code != SQLITE_BUSY && code != SQLITE_LOCKED) || on_busy(this, times) == 0) {
        fail("cannot be written");
      }
    }
  }

  struct Statement {
    const Database& db;
    sqlite3_stmt* handle = nullptr;

    Statement(const Database& database, const std::string& sql) : db(database) {
      if (sqlite3_prepare_v2(db.handle, sql.c_str(), -1, &handle, nullptr) != SQLITE_OK) {
        db.fail("is no table of points");
      }
    }
    ~Statement() { sqlite3_finalize(handle); }
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;

    bool step() {
      const int result = sqlite3_step(handle);
      if (result != SQLITE_ROW && result != SQLITE_DONE) db.fail("cannot be read or written");
      return result == SQLITE_ROW;
    }
    void reset() { sqlite3_reset(handle); }

    void bind(int at, const std::string& text) {
      sqlite3_bind_text(handle, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    }
    void bind(int at, double number) {
      if (std::isnan(number)) {
        sqlite3_bind_null(handle, at);
      } else if (number == std::floor(number) && std::abs(number) < 9e15) {
        sqlite3_bind_int64(handle, at, static_cast<sqlite3_int64>(number));
      } else {
        sqlite3_bind_double(handle, at, number);
      }
    }
    void bind(int at, const Cell& cell) {
      if (const double* number = std::get_if<double>(&cell)) {
        bind(at, *number);
      } else if (const auto* text = std::get_if<std::string>(&cell)) {
        bind(at, *text);
      } else {
        sqlite3_bind_null(handle, at);
      }
    }

    std::string text(int column) const {
      const auto* bytes = sqlite3_column_text(handle, column);
      const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle, column));
      return bytes == nullptr ? "" : std::string(reinterpret_cast<const char*>(bytes), size);
    }
    Cell cell(int column) const {
      switch (sqlite3_column_type(handle, column)) {
        case SQLITE_NULL: return {};
        case SQLITE_INTEGER:
        case SQLITE_FLOAT: return sqlite3_column_double(handle, column);
        default: return text(column);
      }
    }
  };

  int number(const char* pragma) const {
    Statement read(*this, fmt::format("PRAGMA {}", pragma));
    return read.step() ? sqlite3_column_int(read.handle, 0) : 0;
  }

  // Of the table, in its order.
  std::vector<std::string> columns() const {
    std::vector<std::string> names;
    Statement read(*this, "SELECT name FROM pragma_table_info('points') ORDER BY cid");
    while (read.step()) names.push_back(read.text(0));
    return names;
  }

  void open(Mode mode) {
    namespace fs = std::filesystem;
    std::error_code none;
    const fs::file_status status = fs::status(path, none);
    if (path.empty()) throw InputError({"''", 0, ""}, "is no file; accepted: a name as sweep.db");
    if (fs::exists(status) && !fs::is_regular_file(status)) {
      throw InputError({path, 0, ""},
                       fmt::format("is {}; accepted: a file",
                                   fs::is_directory(status) ? "a directory" : "no regular file"));
    }
    if (mode == Mode::read && !fs::exists(status)) {
      throw InputError({path, 0, ""}, "is not there; `stepcast sweep --out` makes it");
    }
    const int flags =
        mode == Mode::create ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    // A name that begins with "file:" or ":" is a file's all the same.
    const std::string name = fs::absolute(path, none).string();
    if (sqlite3_open_v2(name.c_str(), &handle, flags, nullptr) != SQLITE_OK) {
      fail("cannot be opened");
    }
    sqlite3_busy_handler(handle, on_busy, this);
    sqlite3_extended_result_codes(handle, 1);
  }

  bool has_tables() const {
    Statement read(*this, "SELECT count(*) FROM sqlite_master");
    return read.step() && sqlite3_column_int(read.handle, 0) > 0;
  }

  void check_ours() const {
    run("SELECT count(*) FROM sqlite_master", "cannot be read");
    const int application = number("application_id"), layout = number("user_version");
    if (application != our_application) {
      throw InputError({path, 0, ""},
                       "is a database of something else; accepted: one that "
                       "`stepcast sweep` made");
    }
    if (layout != our_layout) {
      throw InputError({path, 0, ""}, fmt::format("has layout {} of a later stepcast; accepted: {}",
                                                  layout, our_layout));
    }
    const std::vector<std::string> there = columns();
    for (const char* column : {"key", "version", "state", "why", "binding"}) {
      if (std::find(there.begin(), there.end(), column) != there.end()) continue;
      throw InputError({path, 0, ""}, fmt::format("has no column '{}' in its points", column));
    }
  }

  void make_table() const {
    if (has_tables()) return;  // another program was faster
    std::string columns = "key TEXT PRIMARY KEY, version TEXT, state TEXT, why TEXT, binding TEXT";
    for (const Output& output : outputs) columns += fmt::format(", {} REAL", output.name);
    run(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}; CREATE TABLE points ({})",
                    our_application, our_layout, columns));
  }

  void create() {
    run("SELECT count(*) FROM sqlite_master", "cannot be read");
    if (!has_tables()) alone([&] { make_table(); });
    check_ours();
    log_ahead();
    run("PRAGMA synchronous=NORMAL");
    writes = true;
  }

  // Outputs of a later release, keys that no point said before.
  void add_columns(const std::vector<std::string>& wanted) const {
    const std::vector<std::string> there = columns();
    for (const std::string& name : wanted) {
      if (std::find(there.begin(), there.end(), name) != there.end()) continue;
      run(fmt::format("ALTER TABLE points ADD COLUMN {}", quoted(name)));
    }
  }
};

Store::Store(const std::string& path, Mode mode, StoreWait wait)
    : db_(std::make_unique<Database>()) {
  db_->path = path;
  db_->wait = std::move(wait);
  db_->open(mode);
  mode == Mode::create ? db_->create() : db_->check_ours();
}

Store::~Store() = default;

std::unordered_set<std::string> Store::known() const {
  std::unordered_set<std::string> keys;
  Database::Statement read(*db_, "SELECT key FROM points WHERE version = ? AND state <> 'failed'");
  read.bind(1, build_version());
  while (read.step()) keys.insert(read.text(0));
  return keys;
}

void Store::put(const std::vector<std::string>& inputs, const std::vector<StoredPoint>& points) {
  if (points.empty()) return;
  std::vector<std::string> wanted;
  for (const Output& output : outputs) wanted.emplace_back(output.name);
  wanted.insert(wanted.end(), inputs.begin(), inputs.end());
  std::string names = fixed_columns(), places = "?";
  for (const std::string& input : inputs) names += ", " + quoted(input);
  for (int i = 1; i < fixed_count + static_cast<int>(inputs.size()); ++i) places += ", ?";
  db_->alone([&] {
    db_->add_columns(wanted);
    Database::Statement insert(
        *db_, fmt::format("INSERT OR REPLACE INTO points ({}) VALUES ({})", names, places));
    for (const StoredPoint& point : points) {
      int at = 1;
      insert.bind(at++, point.key);
      insert.bind(at++, build_version());
      insert.bind(at++, point.result.state);
      insert.bind(at++, point.result.why);
      insert.bind(at++, point.result.binding);
      for (const double number : point.result.numbers) insert.bind(at++, number);
      for (const Cell& cell : point.inputs) insert.bind(at++, cell);
      insert.step();
      insert.reset();
    }
  });
}

PointTable Store::read() const {
  PointTable table;
  const std::vector<std::string> there = db_->columns();
  const auto has = [&](std::string_view name) {
    return std::find(there.begin(), there.end(), name) != there.end();
  };
  std::string names = "key, version, state, why, binding", order;
  for (const Output& output : outputs) {
    names += has(output.name) ? fmt::format(", {}", output.name) : ", NULL";
  }
  for (const ScenarioKey& key : scenario_keys()) {
    if (!has(key.name())) continue;
    table.inputs.push_back(key.name());
    names += ", " + quoted(key.name());
    order += (order.empty() ? "" : ", ") + quoted(key.name());
  }
  Database::Statement read(*db_, fmt::format("SELECT {} FROM points ORDER BY {}", names,
                                             order.empty() ? "key" : order + ", key"));
  while (read.step()) {
    PointTable::Row& row = table.rows.emplace_back();
    row.key = read.text(0);
    row.version = read.text(1);
    row.result.state = read.text(2);
    row.result.why = read.text(3);
    row.result.binding = read.text(4);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Cell cell = read.cell(5 + static_cast<int>(i));
      if (const double* number = std::get_if<double>(&cell)) row.result.numbers[i] = *number;
    }
    for (std::size_t i = 0; i < table.inputs.size(); ++i) {
      row.inputs.push_back(read.cell(fixed_count + static_cast<int>(i)));
    }
  }
  return table;
}

std::string sqlite_version() { return sqlite3_libversion(); }

}  // namespace stepcast
