/* A libnvidia-ml.so.1 for machines without GPUs, so that the real binding is used on its real way. It tells what
 * the file FAKE_NVML says: `init CODE` first, then a line for each GPU:
 *   name|uuid|total MiB|used MiB|utilisation|mig|nvlink group|switch group     (a group of -1: in none; uuid "lost": gone)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, LOST = 15 };
struct gpu { char name[96], uuid[96]; long total, used; int busy, mig, nvlink, pcie; };
static struct gpu gpus[32];
static unsigned count;

int nvmlInitWithFlags(unsigned flags) {
    int code = 0;
    FILE *file = fopen(getenv("FAKE_NVML"), "r");
    if (!file || fscanf(file, "init %d\n", &code) != 1) return 999;
    struct gpu g;
    for (count = 0; count < 32 && fscanf(file, "%95[^|]|%95[^|]|%ld|%ld|%d|%d|%d|%d\n", g.name, g.uuid, &g.total,
                                         &g.used, &g.busy, &g.mig, &g.nvlink, &g.pcie) == 8; count++)
        gpus[count] = g;
    fclose(file);
    return code;
}
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == 999 ? "Unknown error" : "Some error"; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = count; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct gpu **g) {
    if (i >= count) return INVALID;
    *g = &gpus[i];
    return strcmp(gpus[i].uuid, "lost") ? OK : LOST;
}
int nvmlDeviceGetName(struct gpu *g, char *s, unsigned n) { snprintf(s, n, "%s", g->name); return OK; }
int nvmlDeviceGetUUID(struct gpu *g, char *s, unsigned n) { snprintf(s, n, "%s", g->uuid); return OK; }
int nvmlDeviceGetMemoryInfo(struct gpu *g, unsigned long long *m) {
    if (g->total < 0) return NOT_SUPPORTED;
    m[0] = g->total << 20; m[1] = (g->total - g->used) << 20; m[2] = g->used << 20;
    return OK;
}
int nvmlDeviceGetUtilizationRates(struct gpu *g, unsigned *u) {
    if (g->busy < 0) return NOT_SUPPORTED;
    u[0] = g->busy; u[1] = 0;
    return OK;
}
int nvmlDeviceGetMigMode(struct gpu *g, unsigned *current, unsigned *pending) {
    if (g->mig < 0) return NOT_SUPPORTED;
    *current = *pending = g->mig;
    return OK;
}
int nvmlDeviceGetP2PStatus(struct gpu *a, struct gpu *b, int index, int *status) {
    *status = index == 2 && a->nvlink >= 0 && a->nvlink == b->nvlink ? 0 : 5;
    return OK;
}
int nvmlDeviceGetTopologyCommonAncestor(struct gpu *a, struct gpu *b, int *level) {
    *level = a->pcie >= 0 && a->pcie == b->pcie ? 20 : 50;
    return OK;
}
