/* The order of a policy's rules, shared by the files that make, write and read it. For qsort. */
#pragma once

int policy_order_rule(const void *left, const void *right);
int policy_order_cidr(const void *left, const void *right);
