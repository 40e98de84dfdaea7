#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/report/format.hpp"
#include "sim/report/report.hpp"

namespace stepcast {

namespace {

constexpr int bar_width = 28;
constexpr Bytes smallest_row = 10'000'000;  // of the memory list; JSON has every row

// Collectives that a reader cannot tell apart: sizes that print alike.
struct TrafficLine {
  std::string_view kind;
  int ranks = 0;
  int calls = 0;
  std::string size;
  std::string choice;
  double intra = 0, inter = 0;  // bytes
  double busbw_sum = 0;         // GB/s, over the calls
};

std::vector<TrafficLine> traffic_lines(const std::vector<CollectiveRow>& rows) {
  std::vector<TrafficLine> lines;
  for (const CollectiveRow& row : rows) {
    const std::string size = human_bytes(static_cast<double>(row.bytes));
    const std::string choice = words(row.cost.choice);
    const auto same = [&](const TrafficLine& l) {
      return l.kind == to_string(row.kind) && l.ranks == row.ranks && l.size == size &&
             l.choice == choice;
    };
    auto found = std::find_if(lines.begin(), lines.end(), same);
    if (found == lines.end()) {
      found = lines.insert(lines.end(), {to_string(row.kind), row.ranks, 0, size, choice, 0, 0, 0});
    }
    found->calls += row.calls;
    found->intra += bytes_sent_intra(row);
    found->inter += bytes_sent_inter(row);
    found->busbw_sum += row.busbw_gbps * row.calls;
  }
  return lines;
}

// In five characters, whatever accumulation makes of it: "32000", "448k", "2.0M".
std::string calls_words(int calls) {
  if (calls < 100'000) return std::to_string(calls);
  return calls < 1'000'000 ? fmt::format("{}k", calls / 1000) : fmt::format("{:.1f}M", calls / 1e6);
}

// The tensors would fit, their blocks do not.
bool fragmented(const RoleMemory& role) {
  return role.reserved && !role.reserved->out_of_memory.empty();
}

class Page {
 public:
  Page(const Report& report, const TextOptions& options) : r_(report), options_(options) {}

  std::string run() {
    head();
    speed();
    perturbed();
    time();
    traffic();
    memory();
    trust();
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    std::string out = fmt::format(format, std::forward<Args>(args)...);
    while (out.ends_with(' ')) out.pop_back();
    text_ += out + "\n";
  }
  void blank() { text_ += "\n"; }

  // Words after a margin, folded at the page's width.
  void folded(const std::string& margin, const std::string& words) {
    text_ += stepcast::folded(margin, words, static_cast<std::size_t>(options_.width));
  }

  std::string bar(double fraction) const {
    const int cells = std::clamp(static_cast<int>(std::lround(fraction * bar_width)), 0, bar_width);
    std::string out;
    for (int i = 0; i < cells; ++i) out += options_.unicode ? "\u2588" : "#";
    return out;
  }

  void head() {
    folded("",
           fmt::format(
               "{}: {} parameters, {}, micro-batch {}{}, checkpointing {}", r_.model,
               human_count(static_cast<double>(r_.parameters)),
               r_.images
                   ? fmt::format("images of {} pixels a side{}", r_.image_size, layout_words(r_))
                   : fmt::format("{} tokens a sequence", grouped(static_cast<double>(r_.seq_len))),
               r_.micro_batch,
               r_.accumulation > 1 ? fmt::format(" x {} accumulated", r_.accumulation) : "",
               r_.checkpointing));
    const std::string mesh =
        r_.mesh.shard == 1       ? fmt::format("{} replica{}", grouped(r_.mesh.replicate),
                                         r_.mesh.replicate == 1 ? "" : "s")
        : r_.mesh.replicate == 1 ? fmt::format("sharded over {}", grouped(r_.mesh.shard))
                                 : fmt::format("sharded over {}, {} replicas",
                                               grouped(r_.mesh.shard), grouped(r_.mesh.replicate));
    const std::string fp8 = r_.fp8.empty() ? "" : ", fp8 " + r_.fp8;
    line("{} ({}{}), {}", r_.strategy, r_.precision, fp8, mesh);
    const int last = r_.gpus - (r_.nodes - 1) * r_.gpus_per_node;
    const std::string partly = r_.nodes > 1 && last != r_.gpus_per_node
                                   ? fmt::format(", {} of them in the last", last)
                                   : "";
    // A GPU's name may have brackets of its own: "NVIDIA GB300 (one of two GPUs)".
    const bool nested = r_.gpu.find('(') != std::string::npos;
    folded("", fmt::format("{} GPU{}{}: {} x {}{}{}{}{}", grouped(r_.gpus), r_.gpus == 1 ? "" : "s",
                           partly, grouped(r_.nodes), r_.machine_name, nested ? ", " : " (", r_.gpu,
                           nested ? "" : ")", r_.nodes > 1 ? "; " + r_.network : ""));
    const std::string corrected =
        r_.corrected_classes.empty()
            ? ""
            : fmt::format(" corrected for {}", fmt::join(r_.corrected_classes, ", "));
    folded("", fmt::format("{} engine, {} profile, NCCL {}{}, {} step", r_.engine, r_.profile,
                           r_.nccl_version, corrected, r_.step));
    blank();
  }

  void speed() {
    const char* unperturbed = r_.perturbed ? "   (unperturbed)" : "";
    if (r_.images) {
      line("step time      {:>12}     images/s {:>14}     images/s/GPU {:>10}{}",
           human_seconds(r_.step_time), grouped(r_.samples_per_second),
           grouped(r_.samples_per_second_per_gpu, 1), unperturbed);
    } else {
      line("step time      {:>12}     tokens/s {:>14}     tokens/s/GPU {:>10}{}",
           human_seconds(r_.step_time), grouped(r_.tokens_per_second),
           grouped(r_.tokens_per_second_per_gpu), unperturbed);
    }
    line("TFLOP/s/GPU    {:>12}     MFU {:>19}     HFU {:>19}", grouped(r_.tflops_per_gpu, 1),
         percent(r_.mfu), percent(r_.hfu));
    folded("               ",
           fmt::format("of {:.1f} TFLOP/s, the dense {} peak{}; {}", r_.peak_tflops, r_.peak_dtype,
                       r_.peak_is_fallback ? " (the part has none for the compute dtype)" : "",
                       flops()));
    blank();
  }

  // What one token or image is counted as.
  std::string flops() const {
    if (r_.images) {
      return fmt::format("{:.3f} GFLOP an image: 3 times a forward's", r_.flops_per_sample / 1e9);
    }
    return fmt::format(
        "{:.3f} GFLOP a token: 6N + 12Lhs, N {}{}", r_.flops_per_token / 1e9,
        r_.tied_embeddings ? "with the tied embedding once" : "without the input embedding",
        r_.experts > 0 ? " and with the experts of one token" : "");
  }

  void perturbed() {
    if (!r_.perturbed) return;
    text_ += to_text(*r_.perturbed);
    blank();
  }

  // Rows that would print as 0.0 % are left out (JSON has every one), except the four that a reader
  // looks for.
  void time_row(const std::string& name, Seconds seconds, bool always = false) {
    const double share = seconds / r_.step_time;
    if (share < 5e-5 && !always) return;
    line("  {:<40}{:>11}{:>8}   {}", name, grouped(seconds * 1e3, 2), percent(share), bar(share));
  }

  void time() {
    line("{:<42}{:>11}{:>8}", "where the step goes (compute stream)", "ms", "");
    const TimeSplit& s = r_.split;
    time_row("compute", s.compute, true);
    time_row("bucket and shard copies", s.copies);
    time_row("interference", s.interference);
    time_row("optimizer", s.optimizer, true);
    time_row("host", s.host, true);
    time_row("other waits", s.other);
    for (const ExposedPart& part : s.exposed) {
      std::string cause = part.cause;
      std::replace(cause.begin(), cause.end(), '_', ' ');
      time_row("exposed: " + cause, part.seconds);
    }
    blank();
  }

  void traffic() {
    if (r_.collectives.empty()) {
      line("no collectives: one GPU");
      blank();
      return;
    }
    line("{:<16}{:>7}{:>6}{:>10}{:>13}{:>15}  {:<19}{:>11}", "sent a GPU, step", "ranks", "calls",
         "size", "in the node", "between nodes", "as NCCL runs it", "busbw");
    const std::vector<TrafficLine> lines = traffic_lines(r_.collectives);
    constexpr std::size_t shown = 6;
    for (std::size_t i = 0; i < std::min(shown, lines.size()); ++i) {
      const TrafficLine& l = lines[i];
      line("  {:<14}{:>7}{:>6}{:>10}{:>13}{:>15}  {:<19}{:>11}", l.kind, l.ranks,
           calls_words(l.calls), l.size, human_bytes(l.intra), human_bytes(l.inter), l.choice,
           fmt::format("{:.1f} GB/s", l.busbw_sum / l.calls));
    }
    if (lines.size() > shown) {
      TrafficLine rest;
      for (std::size_t i = shown; i < lines.size(); ++i) {
        rest.calls += lines[i].calls;
        rest.intra += lines[i].intra;
        rest.inter += lines[i].inter;
      }
      line("  {:<14}{:>7}{:>6}{:>10}{:>13}{:>15}", fmt::format("{} more", lines.size() - shown), "",
           calls_words(rest.calls), "", human_bytes(rest.intra), human_bytes(rest.inter));
    }
    blank();
  }

  void memory() {
    for (const RoleMemory& role : r_.memory) {
      const double share = static_cast<double>(role.peak) / static_cast<double>(r_.capacity);
      line("memory a GPU{}: {} of {} at the peak ({}): {}",
           r_.memory.size() > 1 ? " of " + role_words(role) : "", human_gib(role.peak),
           human_gib(r_.capacity), percent(share),
           role.peak > r_.capacity ? "DOES NOT FIT"
           : fragmented(role)      ? "DOES NOT FIT in the allocator's blocks"
           : r_.fits               ? "fits"
                                   : "fits, " + human_gib(r_.capacity - role.peak) + " free");
      if (!role.peak_moment.empty()) line("  peak at {}", role.peak_moment);
      std::string rows;
      for (const MemoryRow& row : role.rows) {
        if (row.bytes < smallest_row) continue;
        std::string kind = row.kind;
        std::replace(kind.begin(), kind.end(), '_', ' ');
        rows += fmt::format("{}{} {}", rows.empty() ? "" : ", ", kind, human_gib(row.bytes));
      }
      folded("  ", rows);
      if (role.reserved) reserved(*role.reserved);
    }
    if (!r_.smallest_change.empty()) folded("  smallest change that fits: ", r_.smallest_change);
    blank();
  }

  void reserved(const ReservedMemory& r) {
    if (!r.out_of_memory.empty()) folded("  out of memory: ", r.out_of_memory);
    std::string parts = "tensors " + human_gib(r.allocated);
    if (r.waiting > 0) parts += ", freed but not passed by a stream " + human_gib(r.waiting);
    parts += ", cached " + human_gib(r.cached);
    folded("  ", fmt::format("the allocator reserves {} at most{}: {}", human_gib(r.peak),
                             r.moment.empty() ? "" : ", at " + r.moment, parts));
    if (r.retries > 0 && r.out_of_memory.empty()) folded("  ", retries(r));
  }

  static std::string retries(const ReservedMemory& r) {
    const std::string what =
        fmt::format("{} cudaMalloc retr{} a step", r.retries, r.retries == 1 ? "y" : "ies");
    const char* how = "the host waits for the device, frees the cache and asks again";
    if (r.retry_wait > 0) {
      return fmt::format("{}: {}, which makes it {} longer", what, how,
                         human_seconds(r.retry_wait));
    }
    const std::string beside = fmt::format("{} that the step time leaves out: {}", what, how);
    if (r.retried_step <= 0) return beside;
    return fmt::format("up to {}; with all of them a step takes {}", beside,
                       human_seconds(r.retried_step));
  }

  void trust() {
    std::string shares;
    for (const Provenance p : {Provenance::measured, Provenance::modelled, Provenance::extrapolated,
                               Provenance::assumed}) {
      const Seconds seconds = r_.split.by_provenance[static_cast<std::size_t>(p)];
      if (seconds <= 0) continue;
      shares +=
          fmt::format("{}{} {}", shares.empty() ? "" : ", ", to_string(p),
                      seconds < 5e-4 * r_.step_time ? "< 0.1 %" : percent(seconds / r_.step_time));
    }
    folded("the step's time rests on costs that are: ", shares);
    for (const std::string& note : r_.notes) folded("  * ", note);
  }

  const Report& r_;
  TextOptions options_;
  std::string text_;
};

}  // namespace

Bytes room_for_blocks(const RoleMemory& role, Bytes capacity) {
  for (const MemoryRow& row : role.rows) {
    if (row.kind == "cuda_context" || row.kind == "nccl") capacity -= row.bytes;
  }
  return capacity;
}

std::string role_words(const RoleMemory& role) {
  return fmt::format("{} ({} GPU{})", role.role, role.ranks, role.ranks == 1 ? "" : "s");
}

std::string shortage(const Report& report) {
  for (const RoleMemory& role : report.memory) {
    if (role.peak > report.capacity || !fragmented(role)) continue;
    return fmt::format("does not fit in the allocator's blocks{}: {} of {} are needed, but {}",
                       report.memory.size() > 1 ? " on " + role_words(role) : "",
                       human_gib(role.peak), human_gib(report.capacity),
                       role.reserved->out_of_memory);
  }
  std::string who;
  std::string others;
  Bytes peak = 0;
  for (const RoleMemory& role : report.memory) {
    peak = std::max(peak, role.peak);
    const Bytes free = report.capacity - role.peak;
    if (free >= 0) {
      others += fmt::format(", while {} has {} free", role_words(role), human_gib(free));
    } else if (report.memory.size() > 1) {
      who += (who.empty() ? " on " : " and ") + role_words(role);
    }
  }
  return fmt::format("does not fit: {} needed{}, {} has {}{}", human_gib(peak), who, report.gpu,
                     human_gib(report.capacity), others);
}

double bytes_sent_intra(const CollectiveRow& row) { return row.cost.bytes_sent_intra * row.calls; }
double bytes_sent_inter(const CollectiveRow& row) { return row.cost.bytes_sent_inter * row.calls; }

std::string to_text(const Report& report, const TextOptions& options) {
  return Page(report, options).run();
}

std::string layout_words(const Report& report) {
  if (!report.channels_last) return "";
  return *report.channels_last ? ", NHWC" : ", NCHW";
}

}  // namespace stepcast
