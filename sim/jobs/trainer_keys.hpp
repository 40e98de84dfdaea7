#pragma once
// Keys of the Trainer's arguments, and of the two programs that extend them, that change nothing in
// a training step as stepcast counts it: data, evaluation, checkpoints, logs, the course of the
// learning rate, tokenizers, generation. Internal to trainer.cpp.

#include <string>
#include <vector>

namespace stepcast::jobs {

const std::vector<std::string>& idle_trainer_keys();
const std::vector<std::string>& idle_llama_factory_keys();
const std::vector<std::string>& idle_axolotl_keys();

}  // namespace stepcast::jobs
