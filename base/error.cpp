#include "base/error.hpp"

#include <algorithm>
#include <numeric>

#include "base/letters.hpp"
#include "base/suggestion.hpp"

namespace stepcast {
namespace {

std::string located(const Where& where, std::string_view message) {
  std::string text;
  if (!where.file.empty()) {
    text += where.file;
    if (where.line > 0) text += ":" + std::to_string(where.line);
    text += ": ";
  }
  if (!where.key.empty()) text += where.key + ": ";
  text += message;
  // One line, whatever the value held.
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::replace(text.begin(), text.end(), '\r', ' ');
  return text;
}

// Letters in any case are the same.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

InputError::InputError(const Where& where, std::string_view message)
    : std::runtime_error(located(where, message)) {}
InputError::InputError(std::string_view message) : std::runtime_error(located({}, message)) {}

namespace {

constexpr std::size_t long_list = 400;  // letters: more are not read when a word is suggested
constexpr std::size_t most_suggested = 3;

bool holds(std::string_view text, std::string_view word) {
  return std::search(text.begin(), text.end(), word.begin(), word.end(), same_letter) != text.end();
}

// Those that contain the word, shortest first: "b300" is part of "hgx-b300".
std::vector<std::string> holding(std::string_view word,
                                 const std::vector<std::string>& candidates) {
  std::vector<std::string> list;
  if (word.size() < 3 || word.size() > 80) return list;
  for (const std::string& candidate : candidates) {
    if (holds(candidate, word)) list.push_back(candidate);
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  return list;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // At least so many letters differ; a key of megabytes is not worked out letter by letter.
    const std::size_t least =
        std::max(word.size(), candidate.size()) - std::min(word.size(), candidate.size());
    if (least >= best_distance) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (best.empty() || best_distance > 1) {
    const std::vector<std::string> longer = holding(word, candidates);
    if (!longer.empty()) return longer.front();
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  if (near.empty()) return "";
  std::vector<std::string> all = holding(word, candidates);
  if (all.empty() || all.front() != near) all = {near};
  if (all.size() > most_suggested) all.resize(most_suggested);
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == all.size() ? " or " : ", ") + ("'" + all[i] + "'");
  }
  return " (did you mean " + text + "?)";
}

std::string accepted_words(const std::vector<std::string>& accepted, bool suggested) {
  std::string text;
  for (std::size_t i = 0; i < accepted.size(); ++i) text += (i ? ", " : "") + accepted[i];
  if (suggested && text.size() > long_list) {
    // The last may be words ("a path to a .toml file"), which no suggestion stands for.
    const bool words = accepted.back().find(' ') != std::string::npos;
    return "; accepted: one of " + std::to_string(accepted.size() - (words ? 1 : 0)) + " names" +
           (words ? ", " + accepted.back() : "");
  }
  return "; accepted: " + text;
}

InputError not_accepted(const Where& where, std::string_view value,
                        const std::vector<std::string>& accepted) {
  std::string message = "'" + std::string(value.substr(0, 80)) + "' is not accepted";
  const std::string near = suggestion(value, accepted);
  return InputError(where, message + near + accepted_words(accepted, !near.empty()));
}

void assertion_failed(const char* expression, const char* file, int line,
                      const std::string& message) {
  throw std::logic_error(std::string("internal error: ") + message + " (" + expression + " at " +
                         file + ":" + std::to_string(line) + ")");
}

}  // namespace stepcast
