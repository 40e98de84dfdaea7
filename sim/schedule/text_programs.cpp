#include <fmt/format.h>

#include <utility>

#include "sim/schedule/text_parts.hpp"

namespace stepcast::text {
namespace {

struct RankRun {
  std::int64_t first = 0, count = 1, stride = 1;
};

// FIRST, FIRST..LAST or FIRST..LAST/STRIDE.
RankRun parse_run(Line& line, std::int64_t least) {
  RankRun run;
  run.first = line.integer("ranks", least, most_ranks - 1);
  std::int64_t last = run.first;
  if (line.accept('.')) {
    if (!line.accept('.')) line.fail("ranks", "accepted: ranks=FIRST..LAST, /STRIDE may follow");
    last = line.integer("ranks", run.first, most_ranks - 1);
    if (line.accept('/')) run.stride = line.integer("ranks", 1, most_ranks);
  }
  if ((last - run.first) % run.stride != 0) {
    line.fail("ranks",
              fmt::format("{} is not {} plus a multiple of {}", last, run.first, run.stride));
  }
  run.count = (last - run.first) / run.stride + 1;
  return run;
}

// One run, or several, ascending, with commas between them.
void parse_ranks(Line& line, Role& role) {
  role.rank_count = 0;
  if (line.accept('-')) return;
  const auto append = [&role](const RankRun& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      role.listed.push_back(static_cast<std::int32_t>(run.first + i * run.stride));
    }
  };
  const RankRun first = parse_run(line, 0);
  role.first_rank = static_cast<int>(first.first);
  role.rank_count = static_cast<int>(first.count);
  role.rank_stride = static_cast<int>(first.stride);
  while (line.accept(',')) {
    if (role.listed.empty()) append(first);
    append(parse_run(line, std::int64_t{role.listed.back()} + 1));
    role.rank_count = static_cast<int>(role.listed.size());
    role.rank_stride = 1;
  }
}

[[noreturn]] void refuse_key(const Line& line, const Op& op, const std::string& key) {
  std::vector<std::string> accepted;
  if (op.kind == OpKind::collective) accepted = {"reduction=", "root=", "comm="};
  if (op.kind == OpKind::host_work) accepted = {"count="};
  if (op.kind == OpKind::host_wait) accepted = {"of="};
  if (op.kind == OpKind::free) accepted = {"after_streams", "streams=", "after_op"};
  for (const char* common : {"stream=", "kernels=", "reads=", "writes=", "on=", "launches=",
                             "lane=", "rule=", "verb=", "unit=", "micro="}) {
    accepted.emplace_back(common);
  }
  throw not_accepted(line.where(), key, accepted);
}

}  // namespace

void Programs::parse_role(Line& line) {
  finish_step();
  Role role;
  role.name = line.word("role").text;
  KeysOnce once(line);
  bool ranks = false;
  while (!line.at_end()) {
    const std::string key = next_key(line, once, {"ranks"});
    ranks = true;
    parse_ranks(line, role);
  }
  if (!ranks) line.fail("ranks", "missing; accepted: ranks=FIRST..LAST, /STRIDE may follow");
  // A rank has one role. A line of 20 letters may list all ranks: a second one is refused here.
  ranks_ += role.rank_count;
  if (ranks_ > most_ranks) {
    line.fail("ranks", fmt::format("{} of all roles; accepted: at most {}", ranks_, most_ranks));
  }
  s_.roles.push_back(std::move(role));
}

void Programs::parse_step(Line& line) {
  finish_step();
  if (s_.roles.empty()) line.fail("step", "a step before the first role; accepted: role first");
  s_.roles.back().steps.push_back({line.word("step").text, {}});
  in_step_ = true;
}

void Programs::finish_step() {
  for (const PendingRef& pending : pending_) {
    s_.refs[pending.ref].op = static_cast<OpIndex>(ops_.at(pending.line, "on", pending.label));
  }
  pending_.clear();
  ops_.clear();
  in_step_ = false;
}

void Programs::parse_op(Line& line, const std::string& label) {
  Op op;
  const text::OpLabel split = text::split_op_label(label);
  if (!split.phase) {
    line.fail("op", fmt::format("'{}' does not begin with a phase; accepted: PHASE.VERB[.UNIT] "
                                "with a phase of setup, load, forward, loss, backward, optimizer",
                                label.substr(0, 80)));
  }
  ops_.add(line, label);
  op.phase = *split.phase;
  op.verb = split.verb;
  op.kind = line.one_of("kind", OpKind::storage);
  parse_particulars(line, op);

  bool unit_given = false;
  std::int64_t launches = -1;
  if (split.micro_batch > most_micro_batch) {
    line.fail("micro", fmt::format("{} is out of range; accepted: 0 to {}", split.micro_batch,
                                   most_micro_batch));
  }
  op.micro_batch = static_cast<std::int16_t>(split.micro_batch);
  KeysOnce once(line);
  while (!line.at_end()) {
    bool is_key = false;
    const std::string key = line.key_or_flag(is_key);
    once.take(key);
    if (parse_particular_key(line, op, key, is_key)) continue;
    if (!is_key) refuse_key(line, op, key);
    if (key == "stream") {
      op.stream = static_cast<StreamIndex>(d_.streams.at(line, key, line.word(key).text));
    } else if (key == "kernels") {
      const std::int64_t list = d_.kernels.at(line, key, line.word(key).text);
      op.kernels = d_.kernel_ranges[static_cast<std::size_t>(list)];
    } else if (key == "on") {
      op.waits = parse_refs(line);
    } else if (key == "reads") {
      op.reads = parse_views(line, key);
    } else if (key == "writes") {
      op.writes = parse_views(line, key);
    } else if (key == "launches") {
      launches = line.integer(key, 0, most_count);
    } else if (key == "lane") {
      op.lane = static_cast<LaneIndex>(d_.lanes.at(line, key, line.word(key).text));
    } else if (key == "rule") {
      op.rule = line.word(key).text;
    } else if (key == "verb") {
      op.verb = line.word(key).text;
    } else if (key == "unit") {
      const Word unit = line.word(key);
      unit_given = true;
      op.unit = unit.is_none() ? -1 : d_.unit_at(line, unit.text);
    } else if (key == "micro") {
      op.micro_batch = static_cast<std::int16_t>(line.integer(key, 0, most_micro_batch));
    } else {
      refuse_key(line, op, key);
    }
  }
  if (!unit_given && split.unit) op.unit = d_.unit_at(line, *split.unit);
  op.launches = launches >= 0 ? static_cast<int>(launches) : text::usual_launches(s_, op);
  s_.roles.back().steps.back().ops.push_back(op);
}

void Programs::parse_particulars(Line& line, Op& op) {
  switch (op.kind) {
    case OpKind::compute:
    case OpKind::stream_wait: break;
    case OpKind::collective:
      op.collective = line.one_of("collective", CollectiveKind::gather);
      op.dtype = line.dtype();
      op.elements = line.integer("elements", 0, most_elements);
      break;
    case OpKind::copy:
      op.copy = line.one_of("copy", CopyKind::peer);
      op.bytes = line.bytes("bytes", most_bytes);
      break;
    case OpKind::storage: op.bytes = line.bytes("bytes", most_bytes); break;
    case OpKind::host_work:
      op.cost = line.word("cost").text;
      op.count = 1;
      break;
    case OpKind::host_wait: op.wait_target = line.one_of("target", WaitTarget::device); break;
    case OpKind::alloc:
    case OpKind::free:
      op.buffer = static_cast<BufferIndex>(d_.buffers.at(line, "buffer", line.word("buffer").text));
      break;
  }
}

// Keys that one kind of op has; false when it is none of them.
bool Programs::parse_particular_key(Line& line, Op& op, const std::string& key, bool is_key) {
  if (op.kind == OpKind::collective && is_key) {
    if (key == "reduction") {
      op.reduction = line.one_of(key, Reduction::max);
    } else if (key == "root") {
      op.root = static_cast<std::int32_t>(line.integer(key, 0, most_ranks));
    } else if (key == "comm") {
      op.comm = static_cast<CommIndex>(d_.comms.at(line, key, line.word(key).text));
    } else {
      return false;
    }
    return true;
  }
  if (op.kind == OpKind::host_work && is_key && key == "count") {
    op.count = static_cast<std::int32_t>(line.integer(key, 0, most_count));
    return true;
  }
  if (op.kind == OpKind::host_wait && is_key && key == "of") {
    op.wait_stream = static_cast<StreamIndex>(d_.streams.at(line, key, line.word(key).text));
    return true;
  }
  if (op.kind == OpKind::free) {
    if (is_key && key == "streams") {
      op.free_streams = parse_streams(line, key);
      return true;
    }
    for (const FreeRule rule : {FreeRule::after_streams, FreeRule::after_op}) {
      if (is_key || key != to_string(rule)) continue;
      op.free_rule = rule;
      return true;
    }
  }
  return false;
}

Range Programs::parse_refs(Line& line) {
  Range range{static_cast<std::int32_t>(s_.refs.size()), 0};
  do {
    OpRef ref;
    std::string label = line.word("on").text;
    if (line.accept('@')) {
      ref.steps_back = static_cast<std::int8_t>(-line.integer("on", -127, -1));
    }
    pending_.push_back({s_.refs.size(), std::move(label), line});
    s_.refs.push_back(ref);
    ++range.count;
  } while (line.accept(','));
  return range;
}

Range Programs::parse_views(Line& line, const std::string& key) {
  Range range{static_cast<std::int32_t>(s_.views.size()), 0};
  do {
    View view;
    view.buffer = static_cast<BufferIndex>(d_.buffers.at(line, key, line.word(key).text));
    if (line.accept('[')) {
      view.offset = line.bytes(key, most_bytes);
      if (!line.accept('+')) line.fail(key, "accepted: BUFFER[OFFSET+LENGTH]");
      view.bytes = line.bytes(key, most_bytes);
      if (!line.accept(']')) line.fail(key, "accepted: BUFFER[OFFSET+LENGTH]");
    } else {
      view.bytes = s_.buffers[static_cast<std::size_t>(view.buffer)].bytes;
    }
    s_.views.push_back(view);
    ++range.count;
  } while (line.accept(','));
  return range;
}

Range Programs::parse_streams(Line& line, const std::string& key) {
  Range range{static_cast<std::int32_t>(s_.stream_lists.size()), 0};
  do {
    s_.stream_lists.push_back(
        static_cast<StreamIndex>(d_.streams.at(line, key, line.word(key).text)));
    ++range.count;
  } while (line.accept(','));
  return range;
}

}  // namespace stepcast::text
