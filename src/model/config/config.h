/* Configuration: shared by its files. Inside model/ only.
 *
 * Error messages never contain values: any of them may be a key in the wrong place. */
#ifndef BELAY_MODEL_CONFIG_H
#define BELAY_MODEL_CONFIG_H

#include "model/provider.h"
#include <belay/source.h>

#define CONFIG_OPERATION "read the configuration"
#define CONFIG_SIZE_MAX  ((size_t)1024 * 1024)

/* Sources of the choice of model and provider; the first one wins. */
enum config_source {
    CONFIG_FLAG,
    CONFIG_ENVIRONMENT,
    CONFIG_PROJECT,
    CONFIG_USER,
    CONFIG_SOURCES,
};

/* The position of a value. */
struct config_place {
    const char *file;
    uint32_t line;
    uint32_t column;
};

struct config_said {
    const char *provider; /* NULL if unset */
    const char *model;
    struct config_place provider_place; /* file NULL: not from a file */
    struct config_place model_place;
};

/* In the configuration's arena, as are all that follow. */
struct config_provider {
    struct bl_list link;
    struct bl_provider provider;
    struct config_place place; /* file NULL: built in */
    const char *key_env;       /* the variable that holds the key */
    const char *token_env;     /* the variable that holds a bearer token; read after key_env */
    const char *key_file;
    const char *const *key_command;
    const char *key_source;       /* where the key came from; NULL: no key yet */
    bool key_env_chosen;          /* by the file: a key is then required */
    const char *max_tokens_field; /* as the file sets it; NULL if unset */
    const struct bl_json *headers_said;
};

/* USD per million tokens; negative if unknown. */
struct config_rates {
    double input;
    double output;
    double cache_read;
    double cache_write;
};

/* A row of prices.yaml, or of the built-in table. Token counts are 0 if unknown. */
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

/* Sections of a file that are not about models: kept for other rooms. */
enum config_section {
    CONFIG_PERMISSIONS,
    CONFIG_HOOKS,
    CONFIG_ENV_ALLOW,
    CONFIG_CHAT,
    CONFIG_SECTIONS,
};

struct config_kept {
    struct bl_source source;
    const struct bl_json *values[CONFIG_SECTIONS]; /* NULL if unset */
};

struct bl_config {
    struct bl_arena arena;
    const char *(*variable)(const char *name);
    const char *user_file;   /* its path, even if it does not exist; NULL if unknown */
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
    const char **variables; /* that hold keys; NULL-terminated */
    size_t variable_count;
};

#define CONFIG_RATES_UNKNOWN ((struct config_rates){-1, -1, -1, -1})

/* ---- config.c -------------------------------------------------------------------------------- */

/* Return NULL if none has that name. */
struct config_provider *config_provider_find(const struct bl_config *config, struct bl_text name);
struct config_model *config_model_find(const struct bl_config *config, struct bl_text alias);
struct config_provider *config_provider_add(struct bl_config *config, const char *name,
                                            enum bl_api api);
/* Adds a copy of a text that must not be shown. Ignores texts that are too short for a secret. */
void config_secret_add(struct bl_config *config, struct bl_text secret);
/* Sets a base URL, without trailing slashes, and without /v1 if the format adds it. BL_EINVAL: not
 * a valid address; the reason is a static string. */
int config_address(struct bl_config *config, enum bl_api api, const char *text,
                   const char **ret_address, const char **ret_why);

/* ---- value.c --------------------------------------------------------------------------------- */

/* Opens the document in `text`; errors name the position, and quote nothing. */
int config_open(struct bl_config *config, const char *file, struct bl_text text,
                struct bl_source *ret_source, struct bl_error *error);
struct config_place config_place_of(const struct bl_source *source, const struct bl_json *node);
extern const struct bl_record config_rates_record; /* struct config_rates */

#define CONFIG_TOKENS_MAX 1000000000
/* A member that is one line; a number of tokens, where null means 0: unknown. */
#define CONFIG_LINE(key, field, ...)                                                               \
    BL_MEMBER_STRING(key, field, .form = &bl_form_line, __VA_ARGS__)
#define CONFIG_TOKENS(key, field)                                                                  \
    BL_MEMBER_INTEGER(key, field, .optional = true, .nullable = true, .least = 1,                  \
                      .most = CONFIG_TOKENS_MAX)

/* ---- config_file.c --------------------------------------------------------------------------- */

/* Reads the settings of the file into the configuration. */
int config_read_settings(struct bl_config *config, const char *file, bool project,
                         struct bl_text source, struct bl_error *error);

/* ---- price.c --------------------------------------------------------------------------------- */

/* `*` matches any bytes, also none; `?` matches one character. */
bool config_glob(struct bl_text glob, struct bl_text text);
/* Reads prices.yaml. */
int config_read_prices(struct bl_config *config, const char *file, struct bl_text source,
                       struct bl_error *error);
/* Fills in the model's known price and sizes that the profile does not set. */
void config_price_fill(const struct bl_config *config, const struct config_provider *provider,
                       const struct config_model *model, struct bl_profile *profile);

/* ---- config_key.c ---------------------------------------------------------------------------- */

/* Takes the key from the environment, if it is set. */
void config_key_look(struct bl_config *config, struct config_provider *provider);
/* Takes the first line as the key from `source`. BL_EACCES: it cannot be a key. */
int config_take_key(struct bl_config *config, struct config_provider *entry, struct bl_text text,
                    const char *source, struct bl_error *error);

/* ---- login.c --------------------------------------------------------------------------------- */

/* Uses the keys that `belay login` stored, for providers without another source. */
void config_login_find(struct bl_config *config);

#endif
