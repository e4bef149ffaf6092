// draftscope.engine._core: the engine core for Python. Import llama_cpp first, so that its libllama is the one in use.
#include "register.h"

NB_MODULE(_core, m) {
    m.doc() = "The C++ engine core. Use it through draftscope.engine.native.";
    draftscope::bind::register_errors(m);
    draftscope::bind::register_facts(m);
    draftscope::bind::register_states(m);
    draftscope::bind::register_engine(m);
}
