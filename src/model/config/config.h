/* Configuration: what its files share. Inside model/ only.
 *
 * Whatever is said of it in errors, values are not: any of them may be a key that stands in the
 * wrong place. */
#ifndef BELAY_MODEL_CONFIG_H
#define BELAY_MODEL_CONFIG_H

#include "model/provider.h"
#include <belay/source.h>

#define CONFIG_OPERATION "read the configuration"
#define CONFIG_SIZE_MAX  ((size_t)1024 * 1024)

/* Who says which model and provider, the first of them wins. */
enum config_source {
    CONFIG_FLAG,
    CONFIG_ENVIRONMENT,
    CONFIG_PROJECT,
    CONFIG_USER,
    CONFIG_SOURCES,
};

/* Where something stands. */
struct config_place {
    const char *file;
    uint32_t line;
    uint32_t column;
};

struct config_said {
    const char *provider; /* NULL: nothing */
    const char *model;
    struct config_place provider_place; /* file NULL: no file says it */
    struct config_place model_place;
};

/* In the configuration's arena, as all that follows. */
struct config_provider {
    struct bl_list link;
    struct bl_provider provider;
    struct config_place place; /* file NULL: built in */
    const char *key_env;       /* the variable that holds the key */
    const char *token_env;     /* the one that holds a bearer token, looked at after it */
    const char *key_file;
    const char *const *key_command;
    const char *key_source;       /* what the key came from; NULL: there is none yet */
    bool key_env_chosen;          /* by the file: then there must be a key */
    const char *max_tokens_field; /* as the file says it; NULL: it does not */
    const struct bl_json *headers_said;
};

/* USD per million tokens; negative: not known. */
struct config_rates {
    double input;
    double output;
    double cache_read;
    double cache_write;
};

/* A row of prices.yaml, or of the table that is built in. Numbers of tokens: 0 is not known. */
struct config_price {
    struct bl_list link;
    const char *match;
    struct config_rates rates;
    uint64_t context_window;
    uint64_t max_output;
    uint64_t image_tokens_max;
    uint64_t overhead_tokens;
};

struct config_model {
    struct bl_list link;
    struct bl_profile profile;
    const char *provider;
    struct config_place place;
    struct config_place provider_place;
    const struct bl_json *thinking_said;
    bool free;
    struct config_rates rates;
};

/* What a file says that is not about models: kept for whoever it is for. */
enum config_section {
    CONFIG_PERMISSIONS,
    CONFIG_HOOKS,
    CONFIG_ENV_ALLOW,
    CONFIG_SECTIONS,
};

struct config_kept {
    struct bl_source source;
    const struct bl_json *values[CONFIG_SECTIONS]; /* NULL: not said */
};

struct bl_config {
    struct bl_arena arena;
    const char *(*variable)(const char *name);
    const char *user_file;   /* where it is, or would be; NULL: nobody knows */
    const char *prices_file; /* likewise */
    struct config_said said[CONFIG_SOURCES];
    struct config_kept kept[2]; /* of the user's file, and of the project's */
    struct bl_list providers;
    struct bl_list models;
    struct bl_list prices;
    bool defined; /* the user's file defines a provider or a model */
    struct bl_text *secrets;
    size_t secret_count;
    size_t secret_capacity;
    const char **variables; /* that hold keys; ends in NULL */
    size_t variable_count;
};

#define CONFIG_RATES_UNKNOWN ((struct config_rates){-1, -1, -1, -1})

/* ---- config.c -------------------------------------------------------------------------------- */

/* NULL: there is none of that name. */
struct config_provider *config_provider_find(const struct bl_config *config, struct bl_text name);
struct config_model *config_model_find(const struct bl_config *config, struct bl_text alias);
struct config_provider *config_provider_add(struct bl_config *config, const char *name,
                                            enum bl_api api);
/* Adds what must not be shown; it is copied. Texts that are too short to be one are not. */
void config_secret_add(struct bl_config *config, struct bl_text secret);
/* Sets an address, without what ends it too much: slashes, and /v1 where the format adds that.
 * BL_EINVAL: it is none; why is static. */
int config_address(struct bl_config *config, enum bl_api api, const char *text,
                   const char **ret_address, const char **ret_why);

/* ---- value.c --------------------------------------------------------------------------------- */

/* The document of `text`; errors name the place, and nothing of what stands there. */
int config_open(struct bl_config *config, const char *file, struct bl_text text,
                struct bl_source *ret_source, struct bl_error *error);
struct config_place config_place_of(const struct bl_source *source, const struct bl_json *node);
extern const struct bl_record config_rates_record; /* struct config_rates */

#define CONFIG_TOKENS_MAX 1000000000
/* A member that is a line; a number of tokens, where null is 0: not known. */
#define CONFIG_LINE(key, field, ...)                                                               \
    BL_MEMBER_STRING(key, field, .form = &bl_form_line, __VA_ARGS__)
#define CONFIG_TOKENS(key, field)                                                                  \
    BL_MEMBER_INTEGER(key, field, .optional = true, .nullable = true, .least = 1,                  \
                      .most = CONFIG_TOKENS_MAX)

/* ---- config_file.c --------------------------------------------------------------------------- */

/* Reads what the file says into the configuration. */
int config_read_settings(struct bl_config *config, const char *file, bool project,
                         struct bl_text source, struct bl_error *error);

/* ---- price.c --------------------------------------------------------------------------------- */

/* `*` stands for any bytes, also none; `?` for one character. */
bool config_glob(struct bl_text glob, struct bl_text text);
/* prices.yaml. */
int config_read_prices(struct bl_config *config, const char *file, struct bl_text source,
                       struct bl_error *error);
/* Fills in what is known of the model's price and size, where the profile does not say it. */
void config_price_fill(const struct bl_config *config, const struct config_provider *provider,
                       const struct config_model *model, struct bl_profile *profile);

/* ---- config_key.c ---------------------------------------------------------------------------- */

/* Takes the key from the environment, if it is there. */
void config_key_look(struct bl_config *config, struct config_provider *provider);

#endif
