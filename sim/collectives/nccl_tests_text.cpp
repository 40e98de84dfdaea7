// nccl-tests' text. A result row, whatever the version, is
//
//   [launcher prefix] size count type [redop] [root] half [half] [date time]
//   half: time algbw busbw #wrong  [i_min i_max i_p99 i_cv%]
//
//   0: 1048576  262144  float  sum  -1   50.25  20.87  20.87  0   50.50  20.76  20.76  0
//
// Versions up to 2.11 leave out redop and root where an operation has none; in-place-only rows have
// one half. So the row is read from both ends: two whole numbers and a type name mark its start,
// what follows is redop (a word), root (a number too many), and halves of 4 or 8.
//
// The first versions, up to 2018, print times in ms; their header says "bytes N ... res".
//
// A log that was cut within a row may leave what reads as another row: a time as the root, algbw as
// the time. So a row's time and algbw must make its size, within their digits, and a row has as
// many halves as the header says and the other rows of its test have; what does not is broken, and
// is skipped and said.
//
// A file may hold several tests, of a loop over operations or over nodes. Each says anew with how
// many threads it runs, on which devices, and prints a header; whichever of these is there begins
// the next test once the one before has rows. What a shell or a launcher says in between (a command
// line, a version) counts for the next.
// Source: nccl-tests 2.19.6 and the logs of tests/unit/collectives/logs.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "base/error.hpp"
#include "base/words.hpp"
#include "sim/collectives/nccl_tests_runs.hpp"

namespace stepcast::nccl_tests {
namespace {

using Words = std::vector<std::string>;

// A launcher's prefix: "0:", "[1,0]<stdout>:", "Mon Nov 30 20:00:00 2026[1,0]<stdout>:",
// "[pod/launcher-x2/launcher] 2026-11-30T20:00:00Z stdout F".
constexpr std::size_t max_prefix = 10;

bool whole(const std::string& word, std::int64_t* value) {
  if (word.empty() || word.size() > 18) return false;
  const std::size_t first = word[0] == '-' ? 1 : 0;
  if (first == word.size() || word.find_first_not_of("0123456789", first) != std::string::npos) {
    return false;
  }
  *value = std::atoll(word.c_str());
  return true;
}

// A number, or what stands for one that is not there: "N/A", "nan", "inf".
bool number(const std::string& word, double* value) {
  *value = std::nan("");
  if (word == "N/A" || word == "nan" || word == "-nan" || word == "inf") return true;
  char* end = nullptr;
  *value = std::strtod(word.c_str(), &end);
  return !word.empty() && *end == '\0' && std::isfinite(*value);
}

bool has(const Words& words, const char* word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// What one more in the last digit is worth: 0.01 of "50.25", 10 of "1.2e+02".
double last_digit(const std::string& word) {
  const std::size_t exponent = std::min(word.find_first_of("eE"), word.size());
  const std::size_t point = word.find('.');
  const int decimals = point < exponent ? static_cast<int>(exponent - point) - 1 : 0;
  const long power = std::strtol(word.c_str() + std::min(exponent + 1, word.size()), nullptr, 10);
  return std::pow(10.0, static_cast<double>(std::clamp(power, -400L, 400L)) - decimals);
}

// Whether so many bytes in this time, in units of `unit_us`, are this bandwidth. N/A agrees with
// everything.
bool agrees(std::int64_t size, const std::string& time, double unit_us, const std::string& algbw,
            const Half& half) {
  if (std::isnan(half.time_us) || std::isnan(half.algbw)) return true;
  if (!(half.time_us > 0)) return size == 0;
  const double kb = static_cast<double>(size) / 1000;
  const double digit = unit_us * last_digit(time);
  const double least = kb / (half.time_us + digit);
  const double most =
      half.time_us > digit ? kb / (half.time_us - digit) : std::numeric_limits<double>::infinity();
  const double slack = last_digit(algbw);
  return half.algbw >= 0.999 * least - slack && half.algbw <= 1.001 * most + slack;
}

bool read_half(const Words& words, std::size_t at, std::int64_t size, double unit_us, Half* half) {
  double wrong = 0;
  const bool numbers = number(words[at], &half->time_us) && number(words[at + 1], &half->algbw) &&
                       number(words[at + 2], &half->busbw) && number(words[at + 3], &wrong);
  half->time_us *= unit_us;
  return numbers && agrees(size, words[at], unit_us, words[at + 1], *half);
}

// In-place-only rows of a header with both halves leave the columns of the first blank, more blanks
// than there are anywhere else. That is no row that was cut behind its first half.
bool first_half_blank(const std::string& line) {
  constexpr std::size_t of_a_half = 26;  // "   1.60    0.00    0.00      0"
  const std::size_t start = line.find_first_not_of(" \t");
  return start != std::string::npos && line.find(std::string(of_a_half, ' '), start) < line.size();
}

// Index of the size, or words.size(): it is no row.
std::size_t start_of_row(const Words& words, Row* row) {
  for (std::size_t at = 0; at + 3 < words.size() && at <= max_prefix; ++at) {
    std::string size = words[at];
    const std::size_t glued = size.find_last_of(":>|])");  // "0:8388608"
    if (glued != std::string::npos) size = size.substr(glued + 1);
    if (whole(size, &row->size) && whole(words[at + 1], &row->count) &&
        element_bytes(words[at + 2]) > 0) {
      return at;
    }
  }
  return words.size();
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  std::vector<Run> read(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      ++number_;
      if (line.size() <= 4096) take(line);
    }
    finish();
    if (runs_.empty() && broken_line_ > 0) {
      throw InputError(
          {file_, broken_line_, ""},
          "is a broken result row, and none is whole; accepted: as many columns as the "
          "header has, and a time and algbw that make the size");
    }
    return std::move(runs_);
  }

 private:
  void take(const std::string& line) {
    const Words words = plain_words(line);
    Row row;
    const std::size_t at = start_of_row(words, &row);
    if (at < words.size()) {
      take_row(words, at, row, first_half_blank(line));
    } else {
      take_other(line, words);
    }
  }

  void take_row(const Words& words, std::size_t at, Row& row, bool second_half_alone) {
    if (!complete(words, at, &row)) {
      if (run_.broken_rows++ == 0) run_.first_broken = number_;
      return;
    }
    if (++all_rows_ > max_rows) {
      throw InputError({file_, number_, ""}, fmt::format("has more than {} result rows", max_rows));
    }
    if (run_.line == 0) run_.line = number_;
    run_.rows.push_back(row);
    halves_.push_back(second_half_alone && row_halves_ == 1 ? 2 : row_halves_);
    lines_.push_back(number_);
  }

  bool complete(const Words& words, std::size_t at, Row* row) {
    row->type = words[at + 2];
    if (row->size < 0 || row->count < 0) return false;
    Words rest(words.begin() + static_cast<std::ptrdiff_t>(at) + 3, words.end());
    double ignored = 0;
    if (rest.size() >= 2 && rest.back().find(':') != std::string::npos)
      rest.resize(rest.size() - 2);
    if (!rest.empty() && !number(rest.front(), &ignored)) {
      row->redop = rest.front();
      rest.erase(rest.begin());
    }
    const std::size_t half = per_iteration_ || rest.size() >= 16 ? 8 : 4;
    if (rest.size() % half == 1) {
      if (!whole(rest.front(), &row->root)) return false;
      rest.erase(rest.begin());
    }
    if (rest.size() != half && rest.size() != 2 * half) return false;
    row_halves_ = rest.size() / half;
    if (row_halves_ == 2 && !read_half(rest, 0, row->size, unit_us_, &row->out)) return false;
    return read_half(rest, rest.size() - half, row->size, unit_us_, &row->in);
  }

  // Rows of one half among rows of two: cut behind the first.
  void drop_short_rows() {
    std::size_t most = header_halves_;
    for (const std::size_t halves : halves_) most = std::max(most, halves);
    std::vector<Row> kept;
    for (std::size_t i = 0; i < run_.rows.size(); ++i) {
      if (halves_[i] == most) {
        kept.push_back(std::move(run_.rows[i]));
      } else {
        const bool first = run_.broken_rows++ == 0 || lines_[i] < run_.first_broken;
        if (first) run_.first_broken = lines_[i];
      }
    }
    run_.rows = std::move(kept);
    if (broken_line_ == 0) broken_line_ = run_.first_broken;
  }

  void take_other(const std::string& line, const Words& words) {
    if (has(words, "cputime") && has(words, "algbw")) {
      throw InputError({file_, number_, ""},
                       "holds CPU launch times (nccl-tests -C 1), not what a collective takes; "
                       "accepted: a run without -C");
    }
    if (line.find("NCCL INFO") == std::string::npos) {
      const bool header = has(words, "type") && (has(words, "size") || has(words, "bytes"));
      const bool devices = take_device(line);
      if (header || (has(words, "nThread") && has(words, "nGpus")) ||
          line.find("Collective test starting") != std::string::npos) {
        begin_run();
        if (header) {
          per_iteration_ = has(words, "i_min");
          unit_us_ = has(words, "bytes") && has(words, "N") && has(words, "res") ? 1000 : 1;
          header_halves_ = std::count(words.begin(), words.end(), "busbw") == 2 ? 2 : 1;
        }
      }
      if (devices) return;
    }
    take_names(line);
  }

  // The next test begins here, if this one has rows already.
  void begin_run() {
    if (!run_.rows.empty()) finish();
    if (run_.line == 0) run_.line = number_;
  }

  void finish() {
    drop_short_rows();
    if (run_.nccl_version.empty() && !runs_.empty()) {
      run_.nccl_version = runs_.back().nccl_version;
    }
    if (!run_.rows.empty()) runs_.push_back(std::move(run_));
    run_ = Run{};
    run_.operation = upcoming_;
    upcoming_ = nullptr;
    per_iteration_ = false;
    unit_us_ = 1;
    header_halves_ = 1;
    halves_.clear();
    lines_.clear();
  }

  void take_names(const std::string& line) {
    const Operation* named = program_in(line);
    if (named != nullptr && line.find("concluded") == std::string::npos) {
      const Operation*& slot = run_.rows.empty() ? run_.operation : upcoming_;
      if (slot == nullptr) slot = named;
    }
    const std::size_t library = line.find("nccl-library=");
    if (library != std::string::npos) {
      begin_run();
      run_.nccl_version = version_text(std::atoi(line.c_str() + library + 13));
    }
    const std::size_t said = line.find("NCCL version ");
    if (said != std::string::npos && run_.nccl_version.empty()) {
      std::istringstream rest(line.substr(said + 13));
      std::string word;
      rest >> word;
      run_.nccl_version = word.substr(0, word.find('+'));
    }
  }

  //  #  Rank  3 Group  0 Pid 202832 on  nid005471 device  3 [0039:01:00] NVIDIA GH200 120GB
  bool take_device(const std::string& line) {
    const std::size_t device = line.rfind(" device ");
    const std::size_t on = line.rfind(" on ", device);
    const std::size_t at = on == std::string::npos ? on : line.rfind("Rank ", on);
    const std::size_t open = device == std::string::npos ? device : line.find('[', device);
    const std::size_t close = open == std::string::npos ? open : line.find(']', open);
    if (at == std::string::npos || close == std::string::npos) return false;
    const int rank = std::atoi(line.c_str() + at + 5);
    if (rank < 0 || rank > 1000000) return false;
    begin_run();
    run_.ranks.insert(rank);
    run_.devices.insert(std::atoi(line.c_str() + device + 8));
    const Words host = plain_words(std::string_view(line).substr(on + 4, device - on - 4));
    run_.hosts.insert(host.empty() ? "" : host.front());
    if (run_.gpu.empty()) {
      run_.gpu =
          fmt::format("{}", fmt::join(plain_words(std::string_view(line).substr(close + 1)), " "));
    }
    return true;
  }

  const std::string& file_;
  int number_ = 0;
  int broken_line_ = 0;  // the first of the file
  std::size_t all_rows_ = 0;
  bool per_iteration_ = false;
  double unit_us_ = 1;                              // of times
  std::size_t header_halves_ = 1, row_halves_ = 1;  // of the header, of the row just read
  Run run_;
  std::vector<std::size_t> halves_;  // of each of its rows
  std::vector<int> lines_;
  const Operation* upcoming_ = nullptr;  // named behind this test's rows: the next one's
  std::vector<Run> runs_;
};

}  // namespace

std::vector<Run> read_text(const std::string& text, const std::string& file) {
  return Reader(file).read(text);
}

}  // namespace stepcast::nccl_tests
