/* The NPU's real compiler, which needs no NPU: npu_compile IR BLOB DEVICE HINTS, as edge_infer.backends.npu's child.
 *
 * DEVICE names the platform (NPU.4000), HINTS is a flat JSON object of words. What it cannot do it says on stderr.
 */
#include <openvino/c/openvino.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HINTS_MOST 4

static void need(ov_status_e status, const char* what) {
    if (status != OK) {
        const char* said = ov_get_last_err_msg();
        fprintf(stderr, "%s: %s\n", what, said ? said : ov_get_error_info(status));
        exit(1);
    }
}

int main(int count, char** words) {
    if (count != 5) {
        fprintf(stderr, "usage: npu_compile IR BLOB DEVICE HINTS\n");
        return 2;
    }
    ov_property_t hints[HINTS_MOST];
    size_t hinted = 0;
    const char* between = "{}\":, ";
    for (char* key = strtok(words[4], between); key; key = strtok(NULL, between)) {
        char* value = strtok(NULL, between);
        if (!value || hinted == HINTS_MOST) {
            fprintf(stderr, "hints not understood, at %s\n", key);
            return 2;
        }
        hints[hinted++] = (ov_property_t){key, value};
    }
    ov_core_t* core = NULL;
    ov_model_t* network = NULL;
    ov_compiled_model_t* compiled = NULL;
    need(ov_core_create(&core), "no OpenVINO");
    need(ov_core_read_model(core, words[1], NULL, &network), "cannot read");
    need(ov_core_compile_model_props(core, network, words[3], hinted, hints, &compiled), "cannot compile");
    need(ov_compiled_model_export_model(compiled, words[2]), "cannot export");
    ov_compiled_model_free(compiled);
    ov_model_free(network);
    ov_core_free(core);
    return 0;
}
