// Drivers print tabs or blanks, underlined headers, NIC columns by number or by name, affinity
// columns or none; people paste prompts, quotes, prefixes of launchers ("0: ", "[1,0]<stdout>:"),
// times of logs ("2026-11-30 20:00:00,5 INFO ") and legends along, and terminals that are too
// narrow break lines:
//
//   0:         GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
//   0: GPU0     X      NV12    PXB     0-31            0               N/A
//   0: GPU1    NV12
//   0: PXB     0-31            0               N/A          <- the rest of the row before
//
// Lines with another prefix than the header's are another node's and left out. A text that was cut,
// at its end or at its right edge, is refused: a column without a row, a row without a column, a
// row with more or fewer cells than there are columns.

#include "topologies/importers/smi_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/error.hpp"
#include "base/words.hpp"

namespace stepcast {
namespace {

constexpr std::size_t max_columns = 128;  // groups of devices cost its fourth power at worst
constexpr std::size_t max_line = 1 << 16;

using Words = std::vector<std::string>;

bool all_digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

bool is_gpu(const std::string& word) {
  return word.size() > 3 && word.size() < 8 && word.substr(0, 3) == "GPU" &&
         all_digits(word.substr(3));
}

std::optional<SmiCell> parse_cell(const std::string& word) {
  if (word == "X") return SmiCell{Near::self, 0};
  if (word == "PIX" || word == "PSB") return SmiCell{Near::pix, 0};
  if (word == "PXB") return SmiCell{Near::pxb, 0};
  if (word == "PHB") return SmiCell{Near::phb, 0};
  if (word == "NODE") return SmiCell{Near::node, 0};
  if (word == "SYS" || word == "SOC") return SmiCell{Near::sys, 0};
  if (word.size() > 2 && word.size() < 6 && word.substr(0, 2) == "NV" &&
      all_digits(word.substr(2))) {
    return SmiCell{Near::nvlink, std::stoi(word.substr(2))};
  }
  return std::nullopt;
}

bool is_peer_status(const std::string& word) {
  for (const char* known : {"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"}) {
    if (word == known) return true;
  }
  return false;
}

bool is_affinity_title(const std::string& word) {
  return word == "CPU" || word == "NUMA" || word == "GPU" || word == "Affinity" || word == "ID";
}

// "0-31,64-95", "N/A".
bool is_affinity(const std::string& word) {
  return word == "N/A" || word.find_first_not_of("0123456789-,") == std::string::npos;
}

// "GPU3", "NIC0", "mlx5_bond_0", "rdmap16s27".
bool is_device(const std::string& word) {
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return letter(word.front()) && !std::isdigit(static_cast<unsigned char>(word.front())) &&
         word.find_first_of("0123456789") != std::string::npos && !parse_cell(word) &&
         std::all_of(word.begin(), word.end(),
                     [&](char c) { return letter(c) || c == '_' || c == '-' || c == '.'; });
}

// Words without what people quote with: "> ", "# ", and the bars of tables.
Words words_of(std::string line) {
  std::replace(line.begin(), line.end(), '|', ' ');
  Words words = plain_words(line);
  const auto quote = [](const std::string& w) { return w == ">" || w == "#"; };
  words.erase(words.begin(), std::find_if_not(words.begin(), words.end(), quote));
  return words;
}

// What logs write behind the time.
bool is_log_word(const std::string& word) {
  for (const char* known :
       {"-", "stdout", "stderr", "F", "DEBUG", "INFO", "WARNING", "INFO:", "[INFO]"}) {
    if (word == known) return true;
  }
  return false;
}

// A launcher's prefix ends with one of these; "" where the word has none.
std::string label_of(const std::string& word) {
  const std::size_t end = word.find_last_of(":>])");
  return end == std::string::npos ? "" : word.substr(0, end + 1);
}

class MatrixReader {
 public:
  MatrixReader(const std::string& file, const std::string& others) : file_(file), others_(others) {}

  SmiMatrix read(const std::string& text) {
    int number = 0;
    std::size_t start = 0;
    while (start <= text.size()) {
      const std::size_t end = std::min(text.find('\n', start), text.size());
      ++number;
      if (end - start > max_line) throw error(number, "is a line of more than 64 KiB");
      take_line(words_of(text.substr(start, end - start)), number);
      start = end + 1;
    }
    if (m_.names.empty() && peer_line_ > 0) {
      throw error(peer_line_,
                  "is a matrix of peer access (nvidia-smi topo -p2p), not of distances; "
                  "accepted: nvidia-smi topo -m");
    }
    if (m_.names.empty()) {
      const bool empty = text.find_first_not_of(" \t\r\n\xef\xbb\xbf") == std::string::npos;
      const char* what =
          empty ? "is empty"
                : "holds neither XML nor a matrix of nvidia-smi topo -m (a header GPU0 GPU1 ...)";
      throw error(0, fmt::format("{}; accepted: NCCL_TOPO_DUMP_FILE, nvidia-smi topo -m{}{}", what,
                                 others_.empty() ? "" : ", ", others_));
    }
    end_row();
    check();
    return std::move(m_);
  }

 private:
  InputError error(int line, const std::string& message) const {
    return InputError({file_, line, ""}, message);
  }

  void take_line(Words words, int number) {
    const std::string prefix = take_prefix(words);
    if (words.empty()) return;
    if (m_.names.empty()) {
      if (!is_gpu(words[0])) return;
      if (words.size() > 1 && (parse_cell(words[1]) || is_peer_status(words[1]))) {
        if (peer_line_ > 0) return;
        throw error(number, "starts with a row; accepted: the header GPU0 GPU1 ... above it");
      }
      m_.header_line = number;
      prefix_ = prefix;
      take_titles(words, number);
      return;
    }
    if (prefix != prefix_) return;
    const auto column = std::find(m_.names.begin(), m_.names.end(), words[0]);
    if (column != m_.names.end() && words.size() > 1) {
      end_row();
      const auto row = static_cast<std::size_t>(column - m_.names.begin());
      if (has_name(words[1]) || is_affinity_title(words[1])) {
        again_ = true;  // the header again, and perhaps the whole matrix below it
        check_same_columns(words, number);
        return;
      }
      if (!m_.cells[row].empty()) {
        if (again_) return check_same_row(row, words, number);
        throw error(number, fmt::format("is a second row of {}; accepted: one row for each column",
                                        m_.names[row]));
      }
      row_ = row;
      row_line_ = number;
      rows_begun_ = true;
      affinities_ = 0;
      words.erase(words.begin());
      take_cells(words);
    } else if (row_ && (m_.cells[*row_].size() < m_.names.size() ? parse_cell(words[0]).has_value()
                                                                 : is_affinity(words[0]))) {
      take_cells(words);
    } else if (!rows_begun_ && !titles_end_ &&
               (is_affinity_title(words[0]) || is_device(words[0]))) {
      take_titles(words, number);
    } else if (words.size() >= 2 &&
               (is_gpu(words[0]) || (is_device(words[0]) && parse_cell(words[1])))) {
      throw error(number,
                  fmt::format("is a row of {}, which the header in line {} has no column "
                              "of; accepted: one of {} (is the text cut off at its right?)",
                              words[0].substr(0, 40), m_.header_line, fmt::join(m_.names, ", ")));
    } else if (words.size() >= 2 && words[0].size() > 1 && words[0].back() == ':') {
      m_.legend[words[0].substr(0, words[0].size() - 1)] = words[1];  // NIC0: mlx5_0
    }
  }

  // The matrix again is that of the same machine, or nobody knows which is meant.
  InputError other_machine(int number, const std::string& what) const {
    return error(number, fmt::format("{} than the matrix of line {}: another machine's; accepted: "
                                     "the matrix of one machine",
                                     what, m_.header_line));
  }

  void check_same_columns(const Words& words, int number) const {
    const auto titles = std::find_if(words.begin(), words.end(), is_affinity_title);
    const auto columns = static_cast<std::size_t>(titles - words.begin());
    if (titles == words.end() || columns == m_.names.size() || first_titles_ != m_.names.size()) {
      return;  // a header of several lines says its columns bit by bit
    }
    throw other_machine(number, fmt::format("has {} columns, others", columns));
  }

  // nvidia-smi topo -mp shows PCIe where -m shows NVLink: that is no difference.
  void check_same_row(std::size_t row, const Words& words, int number) const {
    for (std::size_t i = 0; i + 1 < words.size() && i < m_.cells[row].size(); ++i) {
      const std::optional<SmiCell> cell = parse_cell(words[i + 1]);
      if (!cell) return;
      const SmiCell& known = m_.cells[row][i];
      const bool both = (cell->near == Near::nvlink) == (known.near == Near::nvlink);
      if (!both || (cell->near == known.near && cell->links == known.links)) continue;
      throw other_machine(number, fmt::format("says '{}' from {} to {}, something else",
                                              words[i + 1], m_.names[row], m_.names[i]));
    }
  }

  // Takes a launcher's prefix off and returns it: "0:", "[1,0]<stdout>:". A legend's "NIC0:" stays.
  // A log's time goes, too, and is no part of the prefix: every line has another.
  std::string take_prefix(Words& words) const {
    std::string prefix;
    bool timed = false;
    while (!words.empty()) {
      if (is_time(words[0]) || (timed && is_log_word(words[0]))) {
        words.erase(words.begin());
        timed = true;
        continue;
      }
      const std::string label = label_of(words[0]);
      if (label.empty() || has_name(label.substr(0, label.size() - 1))) break;
      prefix += label;
      words[0].erase(0, label.size());
      if (words[0].empty()) words.erase(words.begin());
    }
    return prefix;
  }

  bool has_name(const std::string& word) const {
    return std::find(m_.names.begin(), m_.names.end(), word) != m_.names.end();
  }

  void take_titles(const Words& words, int number) {
    for (const std::string& word : words) {
      if (is_affinity_title(word)) {
        titles_end_ = true;
        break;
      }
      if (has_name(word)) throw error(number, "names " + word + " twice");
      m_.names.push_back(word);
      m_.gpu.push_back(is_gpu(word));
    }
    if (first_titles_ == 0) first_titles_ = m_.names.size();
    if (m_.names.size() > max_columns) {
      throw error(number, fmt::format("has {} columns; accepted: at most {}", m_.names.size(),
                                      max_columns));
    }
    m_.cells.resize(m_.names.size());
    m_.affinity.resize(m_.names.size());
  }

  // Cells of the current row, then its affinities.
  void take_cells(const Words& words) {
    std::vector<SmiCell>& cells = m_.cells[*row_];
    std::size_t at = 0;
    for (; at < words.size() && cells.size() < m_.names.size(); ++at) {
      const std::optional<SmiCell> cell = parse_cell(words[at]);
      if (!cell && is_peer_status(words[at])) {
        peer_line_ = row_line_;
        m_ = {};
        row_.reset();
        first_titles_ = 0;
        rows_begun_ = titles_end_ = false;
        return;
      }
      if (!cell || (cell->near == Near::self) != (cells.size() == *row_)) {
        throw error(row_line_,
                    fmt::format("'{}' between {} and {} is not known; accepted: X, NV#, PIX, PXB, "
                                "PHB, NODE, SYS, SOC",
                                words[at].substr(0, 40), m_.names[*row_], m_.names[cells.size()]));
      }
      cells.push_back(*cell);
    }
    if (at < words.size() && parse_cell(words[at])) {
      throw error(
          row_line_,
          fmt::format("has more than {} cells; accepted: one a column of the header in line "
                      "{}, {}",
                      m_.names.size(), m_.header_line, fmt::join(m_.names, ", ")));
    }
    for (; at < words.size() && affinities_ < 2; ++at, ++affinities_) {
      m_.affinity[*row_] += words[at] + " ";
    }
  }

  void end_row() {
    if (row_ && m_.cells[*row_].size() < m_.names.size()) {
      throw error(row_line_,
                  fmt::format("has {} cell{}; accepted: {}, one a column of the header in "
                              "line {} (is the text cut off?)",
                              m_.cells[*row_].size(), m_.cells[*row_].size() == 1 ? "" : "s",
                              m_.names.size(), m_.header_line));
    }
    row_.reset();
  }

  void check() const {
    const std::size_t n = m_.names.size();
    for (std::size_t i = 0; i < n; ++i) {
      if (m_.cells[i].empty()) {
        throw error(m_.header_line, fmt::format("has a column {} but no row of it; accepted: a row "
                                                "for each of the {} columns (is the text cut off?)",
                                                m_.names[i], n));
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const SmiCell& a = m_.cells[i][j];
        const SmiCell& b = m_.cells[j][i];
        if (a.near == b.near && a.links == b.links) continue;
        throw error(m_.header_line,
                    fmt::format("says one thing from {0} to {1} and another from {1} to {0}",
                                m_.names[i], m_.names[j]));
      }
    }
  }

  const std::string& file_;
  const std::string& others_;
  SmiMatrix m_;
  std::string prefix_;            // of a launcher, before the header
  std::size_t first_titles_ = 0;  // in the header's first line
  bool titles_end_ = false, rows_begun_ = false;
  bool again_ = false;              // the header came twice
  std::optional<std::size_t> row_;  // that cells are added to
  int affinities_ = 0;              // of it: CPU, NUMA
  int row_line_ = 0;
  int peer_line_ = 0;  // of a matrix of nvidia-smi topo -p2p, which is passed over
};

}  // namespace

SmiMatrix read_smi_matrix(const std::string& text, const std::string& file,
                          const std::string& others) {
  return MatrixReader(file, others).read(text);
}

}  // namespace stepcast
