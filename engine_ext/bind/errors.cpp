// EngineError becomes draftscope.engine.errors.EngineError, with its code and hint.
#include "error.h"
#include "register.h"

#include <exception>

namespace nb = nanobind;

namespace draftscope::bind {

void register_errors(nb::module_ &) {
    nb::register_exception_translator([](const std::exception_ptr & pointer, void *) {
        try {
            std::rethrow_exception(pointer);
        } catch (const EngineError & error) {
            nb::object module = nb::module_::import_("draftscope.engine.errors");
            nb::object code   = module.attr("ErrorCode")(error.code.c_str());
            nb::object python = module.attr("EngineError")(code, nb::str(error.what()), nb::str(error.hint.c_str()));
            PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(python.ptr())), python.ptr());
        }
    });
}

}  // namespace draftscope::bind
