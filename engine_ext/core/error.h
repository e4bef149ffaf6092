// Typed failures of the core. Nothing in the core calls abort(), and no call that libllama would answer with one is
// made: what could lead there is checked first and thrown as an EngineError.
#pragma once

#include <stdexcept>
#include <string>

namespace draftscope {

// The codes are those of draftscope.engine.errors.ErrorCode, by value.
class EngineError : public std::runtime_error {
public:
    EngineError(std::string code_, const std::string & message, std::string hint_ = "")
        : std::runtime_error(message), code(std::move(code_)), hint(std::move(hint_)) {}

    std::string code;
    std::string hint;    // what to do about it; may be empty
};

}  // namespace draftscope
