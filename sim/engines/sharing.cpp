#include "sim/engines/sharing.hpp"

#include <algorithm>
#include <cmath>

#include "sim/engines/constraint.hpp"

namespace stepcast {
namespace {

constexpr int rounds = 400;
constexpr double still = 1e-13;  // a level that moves by less stands

}  // namespace

void Sharing::add(int task, std::span<const Ask> asks) {
  if (tasks_.size() <= at(task)) tasks_.resize(at(task) + 1);
  Task& added = tasks_[at(task)];
  added.asks.assign(asks.begin(), asks.end());
  added.speed = 1;
  added.running = true;
  for (const Ask& ask : asks) {
    if (resources_.size() <= at(ask.resource)) resources_.resize(at(ask.resource) + 1);
    resources_[at(ask.resource)].users.push_back({task, ask.share});
  }
  changed_ = true;
}

void Sharing::remove(int task) {
  Task& removed = tasks_[at(task)];
  for (const Ask& ask : removed.asks) {
    std::vector<User>& users = resources_[at(ask.resource)].users;
    users.erase(std::find_if(users.begin(), users.end(),
                             [task](const User& user) { return user.task == task; }));
  }
  removed.running = false;
  changed_ = true;
}

void Sharing::clear() {
  tasks_.clear();
  resources_.clear();
  changed_ = true;
}

const std::vector<int>& Sharing::neighbours(int task) {
  near_.assign(1, task);
  tasks_[at(task)].near = true;
  for (std::size_t i = 0; i < near_.size(); ++i) {
    for (const Ask& ask : tasks_[at(near_[i])].asks) {
      for (const User& user : resources_[at(ask.resource)].users) {
        if (tasks_[at(user.task)].near) continue;
        tasks_[at(user.task)].near = true;
        near_.push_back(user.task);
      }
    }
  }
  for (const int each : near_) tasks_[at(each)].near = false;
  return near_;
}

double Sharing::speed(int task) {
  if (changed_) compute();
  return at(task) < tasks_.size() && tasks_[at(task)].running ? tasks_[at(task)].speed : 1;
}

// The speed of the user's task by all its resources but this one.
double Sharing::held_by_others(const User& user, int resource) const {
  double speed = 1;
  for (const Ask& ask : tasks_[at(user.task)].asks) {
    if (ask.resource == resource) continue;
    speed = std::min(speed, resources_[at(ask.resource)].level / ask.share);
  }
  return speed;
}

// Water filling: the level at which the users, each held by its other resources too, just fill it.
double Sharing::fitting_level(int resource) {
  const std::vector<User>& users = resources_[at(resource)].users;
  wants_.clear();
  double sum = 0;
  for (const User& user : users) {
    wants_.push_back(user.share * held_by_others(user, resource));
    sum += wants_.back();
  }
  if (sum <= 1) return 1;
  std::sort(wants_.begin(), wants_.end());
  double left = 1;
  auto many = static_cast<double>(wants_.size());
  for (const double want : wants_) {
    if (want * many > left) break;
    left -= want;
    --many;
  }
  return left / many;
}

void Sharing::compute() {
  changed_ = false;
  contended_.clear();
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    resources_[r].level = 1;
    if (resources_[r].users.size() > 1) contended_.push_back(static_cast<int>(r));
  }
  settled_ = false;
  for (int round = 0; round < rounds && !settled_; ++round) {
    settled_ = true;
    for (const int r : contended_) {
      const double level = fitting_level(r);
      settled_ = settled_ && std::abs(level - resources_[at(r)].level) <= still;
      resources_[at(r)].level = level;
    }
  }
  for (std::size_t i = 0; !settled_ && i < contended_.size(); ++i) {
    Resource& resource = resources_[at(contended_[i])];
    resource.level = std::min(resource.level, fitting_level(contended_[i]));
  }
  for (Task& task : tasks_) {
    if (!task.running) continue;
    task.speed = 1;
    for (const Ask& ask : task.asks) {
      task.speed = std::min(task.speed, resources_[at(ask.resource)].level / ask.share);
    }
  }
}

}  // namespace stepcast
