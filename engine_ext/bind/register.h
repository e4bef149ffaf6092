// One function a topic; module.cpp calls them in order.
#pragma once

#include <nanobind/nanobind.h>

namespace draftscope::bind {

void register_errors(nanobind::module_ & m);
void register_facts(nanobind::module_ & m);
void register_states(nanobind::module_ & m);
void register_engine(nanobind::module_ & m);

}  // namespace draftscope::bind
