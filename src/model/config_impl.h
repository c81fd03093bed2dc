/* What the readers of config.toml's sections share. */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "base/toml.h"
#include "model/config.h"

/* Where a message points. */
struct config_place {
	const char *file;
	const char *section; /* "[sandboxes.default]"; "" at the top */
};

/* Each returns -1 with err filled. */
int config_refuse_kind(const struct toml *node, const char *expected, struct err *err);
int config_refuse_unknown(const struct config_place *place, const struct toml *node,
                          const char *const *known, struct err *err);
/* Names the file and line of what is in err. */
int config_blame(const struct config_place *place, int line, struct err *err);
/* Replaces what the list holds; refuses what is no array of strings. */
int config_read_strings(struct strings *list, const struct toml *node, struct err *err) NODISCARD;
bool config_has_nul(const struct toml *node);
/* Values that several sections have. A whole number from 0 to most; a time of more than nothing, as
 * "30s" or in seconds; a text, of which "" is none (NULL). */
int config_read_number(uint64_t *ret, const struct toml *node, int most, struct err *err) NODISCARD;
int config_read_ms(uint64_t *ret, const struct toml *node, struct err *err) NODISCARD;
int config_read_text(char **ret, const struct toml *node, struct err *err) NODISCARD;

int config_read_network(struct config *config, struct config_place *place, const struct toml *table,
                        struct err *err) NODISCARD;
int config_read_server(struct config *config, struct config_place *place, const struct toml *table,
                       struct err *err) NODISCARD;
int config_read_delegation(struct config *config, struct config_place *place,
                           const struct toml *table, struct err *err) NODISCARD;
int config_read_audit(struct config *config, struct config_place *place, const struct toml *table,
                      struct err *err) NODISCARD;
int config_read_scopes(struct config *config, struct config_place *place, const struct toml *table,
                       struct err *err) NODISCARD;
int config_read_capabilities(struct config *config, struct config_place *place,
                             const struct toml *table, struct err *err) NODISCARD;
/* Once the file is read. */
int config_check_capabilities(const struct config *config, const char *file,
                              struct err *err) NODISCARD;
int config_read_tasks(struct config *config, struct config_place *place, const struct toml *table,
                      struct err *err) NODISCARD;
int config_read_sessions(struct config *config, struct config_place *place,
                         const struct toml *table, struct err *err) NODISCARD;
int config_read_rates(struct config *config, struct config_place *place, const struct toml *table,
                      struct err *err) NODISCARD;
int config_read_budgets(struct config *config, struct config_place *place, const struct toml *table,
                        struct err *err) NODISCARD;
int config_read_webhooks(struct config *config, struct config_place *place,
                         const struct toml *table, struct err *err) NODISCARD;
void config_tasks_init(struct config *config);
void config_tasks_done(struct config *config);
/* As config_server_line. */
bool config_tasks_line(size_t index, const char **ret_section, const char **ret_name,
                       const char **ret_text, const char **ret_about);
void config_server_init(struct config *config);
void config_server_done(struct config *config);
/* The keys of these sections for the default file; false after the last. */
bool config_server_line(size_t index, const char **ret_section, const char **ret_name,
                        const char **ret_text, const char **ret_about);
int config_read_agents(struct config *config, struct config_place *place, const struct toml *table,
                       struct err *err) NODISCARD;
void config_agents_done(struct config *config);
int config_read_services(struct config *config, struct config_place *place,
                         const struct toml *table, struct err *err) NODISCARD;
void config_services_done(struct config *config);
int config_read_commands(struct config *config, struct config_place *place,
                         const struct toml *table, struct err *err) NODISCARD;
int config_read_mcp(struct config *config, struct config_place *place, const struct toml *table,
                    struct err *err) NODISCARD;
int config_read_skills(struct config *config, struct config_place *place, const struct toml *table,
                       struct err *err) NODISCARD;
void config_hands_init(struct config *config);
void config_hands_done(struct config *config);
/* As config_server_line. */
bool config_hands_line(size_t index, const char **ret_section, const char **ret_name,
                       const char **ret_text, const char **ret_about);
int config_read_llm(struct config *config, struct config_place *place, const struct toml *table,
                    struct err *err) NODISCARD;
void config_llm_init(struct config *config);
void config_llm_done(struct config *config);
/* As config_server_line. */
bool config_llm_line(size_t index, const char **ret_section, const char **ret_name,
                     const char **ret_text, const char **ret_about);
int config_read_git(struct config *config, struct config_place *place, const struct toml *table,
                    struct err *err) NODISCARD;
int config_read_forges(struct config *config, struct config_place *place, const struct toml *table,
                       struct err *err) NODISCARD;
void config_git_init(struct config *config);
void config_git_done(struct config *config);
/* As config_server_line. */
bool config_git_line(size_t index, const char **ret_section, const char **ret_name,
                     const char **ret_text, const char **ret_about);
int config_read_environments(struct config *config, struct config_place *place,
                             const struct toml *table, struct err *err) NODISCARD;
