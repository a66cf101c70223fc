/* A libnvidia-ml.so.1 for machines without GPUs, so that the real binding is used on its real way. It tells what
 * the file FAKE_NVML says: `init CODE` first, then a line for each GPU:
 *   name|uuid|total MiB|used MiB|utilisation|mig|nvlink group|switch group     (a group of -1: in none; uuid "lost": gone)
 * and, where a GPU reports more, on the same line
 *   |milliwatts|°C|throttle reasons|corrected|uncorrected|recovery action (-1: the GPU is lost)|Xid|pid of a process (0: none)
 * Lines below a GPU's:
 *   +name|uuid|total MiB|used MiB       an instance of it, where it is in MIG mode
 *   *pid|MiB|mps                        one more process of the GPU or instance above; mps 1: a client of MPS
 * Events are asked for before each sample: what the file says then holds until the next one.
 * Where there is a file `$FAKE_NVML.limits`, limits of memory can be set and are added to it: uuid cgroup soft hard.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10, LOST = 15 };
struct gpu { char name[96], uuid[96]; long total, used; int busy, mig, nvlink, pcie, more, power, warm, throttle,
             corrected, uncorrected, recovery, xid; unsigned pid; struct gpu *whole;
             struct { unsigned pid; long used; int mps; } processes[8]; int running; };
static struct gpu all[64], *gpus[64];
static int told[64];
static unsigned count, known;

/* A hub does not hand FAKE_NVML on to its services; they find the file `gpus` in the library's folder. */
static FILE *says(void) {
    char path[4096];
    const char *file = getenv("FAKE_NVML"), *folder = getenv("LD_LIBRARY_PATH");
    if (!file) {
        snprintf(path, sizeof path, "%s/gpus", folder ? folder : ".");
        file = path;
    }
    return fopen(file, "r");
}

int nvmlInitWithFlags(unsigned flags) {
    int code = 0;
    FILE *file = says();
    if (!file || fscanf(file, "init %d\n", &code) != 1) return 999;
    char line[512];
    count = known = 0;
    while (known < 64 && fgets(line, sizeof line, file)) {
        struct gpu g = {0}, *above = known ? &all[known - 1] : NULL;
        if (*line == '*' && above) {
            int n = above->running++;
            sscanf(line, "*%u|%ld|%d", &above->processes[n].pid, &above->processes[n].used, &above->processes[n].mps);
            continue;
        }
        if (*line == '+' && count) {
            sscanf(line, "+%95[^|]|%95[^|]|%ld|%ld", g.name, g.uuid, &g.total, &g.used);
            g.busy = g.mig = g.nvlink = g.pcie = -1;
            g.whole = gpus[count - 1];
        } else {
            int fields = sscanf(line, "%95[^|]|%95[^|]|%ld|%ld|%d|%d|%d|%d|%d|%d|%d|%d|%d|%d|%d|%u", g.name, g.uuid,
                                &g.total, &g.used, &g.busy, &g.mig, &g.nvlink, &g.pcie, &g.power, &g.warm, &g.throttle,
                                &g.corrected, &g.uncorrected, &g.recovery, &g.xid, &g.pid);
            if (fields < 8) break;
            g.more = fields == 16;
            gpus[count++] = &all[known];
            if (g.pid) {
                g.processes[0].pid = g.pid;
                g.processes[0].used = g.used;
                g.running = 1;
            }
        }
        all[known++] = g;
    }
    fclose(file);
    return code;
}
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == 999 ? "Unknown error" : "Some error"; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = count; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct gpu **g) {
    if (i >= count) return INVALID;
    *g = gpus[i];
    return strcmp(gpus[i]->uuid, "lost") ? OK : LOST;
}
int nvmlDeviceGetName(struct gpu *g, char *s, unsigned n) { snprintf(s, n, "%s", g->name); return OK; }
int nvmlDeviceGetUUID(struct gpu *g, char *s, unsigned n) { snprintf(s, n, "%s", g->uuid); return OK; }
int nvmlDeviceGetMemoryInfo(struct gpu *g, unsigned long long *m) {
    if (g->recovery < 0 || (g->whole && g->whole->recovery < 0)) return LOST;
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

#define REPORT(name, type, value) \
    int name(struct gpu *g, type *v) { *v = (value); return g->more ? OK : NOT_SUPPORTED; }
REPORT(nvmlDeviceGetPowerUsage, unsigned, g->power)
REPORT(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, g->throttle)
int nvmlDeviceGetTemperature(struct gpu *g, int sensor, unsigned *v) { *v = g->warm; return g->more ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetTotalEccErrors(struct gpu *g, int kind, int counter, unsigned long long *v) {
    *v = kind ? g->uncorrected : g->corrected;
    return g->more && counter == 0 ? OK : NOT_SUPPORTED;
}
struct field { unsigned id, scope; long long at, took; int type, answer; unsigned value, rest; };
int nvmlDeviceGetFieldValues(struct gpu *g, int n, struct field *f) {
    for (int i = 0; i < n; i++) {
        f[i].answer = g->more && f[i].id == 230 ? OK : NOT_SUPPORTED;
        f[i].value = g->recovery;
    }
    return OK;
}
struct process { unsigned pid; unsigned long long memory; unsigned gpu, compute; };
static int processes(struct gpu *g, unsigned *n, struct process *p, int mps) {
    unsigned room = *n;
    *n = 0;
    for (int i = 0; i < g->running; i++)
        if (g->processes[i].mps == mps && (*n)++ < room)
            p[*n - 1] = (struct process){g->processes[i].pid, (unsigned long long)g->processes[i].used << 20, -1, -1};
    return *n > room ? TOO_SMALL : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(struct gpu *g, unsigned *n, struct process *p) {
    return processes(g, n, p, 0);
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct gpu *g, unsigned *n, struct process *p) {
    return processes(g, n, p, 1);
}
int nvmlDeviceGetMaxMigDeviceCount(struct gpu *g, unsigned *n) { *n = g->mig < 0 ? 0 : 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(struct gpu *g, unsigned i, struct gpu **instance) {
    for (*instance = all; *instance < all + known; ++*instance)
        if ((*instance)->whole == g && i-- == 0) return OK;
    return NOT_FOUND;
}
struct limits { const char *cgroup; unsigned long long soft, hard; };
int nvmlDeviceSetMemoryLimits_v1(struct gpu *g, struct limits *limits) {
    char path[4096], inside[4096];
    snprintf(path, sizeof path, "%s.limits", getenv("FAKE_NVML"));
    snprintf(inside, sizeof inside, "%s/cgroup.procs", limits->cgroup);
    FILE *file = g->whole ? NULL : fopen(path, "r+");
    if (!file) return NOT_SUPPORTED;
    if (access(inside, F_OK)) { fclose(file); return NOT_FOUND; }
    fseek(file, 0, SEEK_END);
    fprintf(file, "%s %s %llu %llu\n", g->uuid, limits->cgroup, limits->soft, limits->hard);
    fclose(file);
    return OK;
}
int nvmlEventSetCreate(void **set) { *set = gpus; return OK; }
int nvmlDeviceRegisterEvents(struct gpu *g, unsigned long long kinds, void *set) { return OK; }
struct event { struct gpu *gpu; unsigned long long kind, data; unsigned instance, compute; };
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned ms) {
    nvmlInitWithFlags(0);
    for (unsigned i = 0; i < count; i++)
        if (gpus[i]->xid != told[i]) {
            told[i] = gpus[i]->xid;
            if (told[i]) { *event = (struct event){gpus[i], 8, told[i], 0, 0}; return OK; }
        }
    return TIMEOUT;
}
